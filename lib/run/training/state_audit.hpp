// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/replica_audit.hpp"
#include "run/training/opened_deck.hpp"

namespace lockstep {

/// Looks at what ranks hold, every parallel.audit_every steps and before it takes the place of what was good:
/// replicas that differ end the run, and parameters that are not finite are not written.
class StateAudit {
 public:
  /// `deck` outlives this. Collective.
  explicit StateAudit(const OpenedDeck& deck);

  /// Throws SharedError where replicas differ, if that is due with the last `steps` steps, or was where ranks had no
  /// common parameters. Collective.
  void compare_if_due(std::int64_t steps);
  /// Throws SharedError where replicas differ, if the deck wants audits and this step had none. Collective.
  void compare();
  /// Compares, and says whether parameters are finite; then waits for the device. Collective.
  bool is_good();
  /// The run is at an earlier step again.
  void go_back() { audited_step_ = -1; }

 private:
  Trainer& trainer_;
  Communicator comm_;
  std::int64_t every_;
  std::optional<ReplicaAudit> audit_;  ///< where the deck wants it, and there is something to compare
  std::int64_t audited_step_ = -1;
  bool is_due_ = false;
  ExecSpace space_;
};

}  // namespace lockstep
