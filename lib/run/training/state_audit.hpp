// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/replica_audit.hpp"
#include "run/training/prepared_run.hpp"

namespace lockstep {

/// Checks what ranks hold, every parallel.audit_every steps and before a checkpoint replaces a good one: replicas that
/// differ end the run, and parameters that are not finite are not written.
class StateAudit {
 public:
  /// `prepared` outlives this. Collective.
  explicit StateAudit(const PreparedRun& prepared);

  /// Compares replicas if that has become due in the last `steps` steps, or was due while ranks had no common
  /// parameters. Throws SharedError if they differ. Collective.
  void compare_if_due(std::int64_t steps);
  /// Compares replicas if the deck asks for audits and this step had none. Throws SharedError if they differ.
  /// Collective.
  void compare();
  /// Compares replicas, and returns whether parameters are finite; then waits for the device. Collective.
  bool is_good();
  /// Notes that the run is at an earlier step again.
  void go_back() { audited_step_ = -1; }

 private:
  RunTrainer& run_trainer_;
  Trainer& trainer_;
  Communicator comm_;
  std::int64_t every_;
  std::optional<ReplicaAudit> audit_;  ///< none if the deck asks for no audits, or there is nothing to compare
  std::int64_t audited_step_ = -1;
  bool is_due_ = false;
  ExecSpace space_;
};

}  // namespace lockstep
