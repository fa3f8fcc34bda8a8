// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/replica_sync.hpp"
#include "train/balance/pass_times.hpp"
#include "train/balance/share_balance.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Gives slower ranks less to do, by the time that their passes have taken: smaller shares of batches (parallel.shares:
/// measured), or their groups fewer steps between two synchronizations (parallel.local.steps_by_speed).
class LoadBalance {
 public:
  /// `syncs`: of the trainer's strategy. `batch`: the largest one. `trainer` and `syncs` outlive this.
  LoadBalance(const ParallelConfig& config, const Communicator& comm, Trainer& trainer, ReplicaSync& syncs,
              std::int64_t batch);

  /// The trainer has done steps, in which it has waited so long for other ranks. Parts (BatchPartition) by which
  /// batches are to be divided from now on; none: as they are. Collective.
  std::optional<std::vector<std::int64_t>> steps_done(const Trainer::ExposedSeconds& exposed);
  /// Batches are divided into these shares; where shares are measured, of several ranks.
  void set(const std::vector<std::int64_t>& shares) { shares_->set(shares); }
  /// How a batch is divided now.
  const BatchPartition& partition() const { return shares_ ? shares_->partition() : trainer_.partition(); }
  /// Whether a group of ranks may leave out steps.
  bool paces_groups() const { return pass_times_.has_value(); }

 private:
  std::optional<std::vector<std::int64_t>> compare_shares(double seconds);
  void pace_groups(double seconds);

  Communicator comm_;
  Trainer& trainer_;
  ReplicaSync& syncs_;
  std::optional<ShareBalance> shares_;
  std::optional<PassTimes> pass_times_;       ///< of the steps since the last synchronization
  double pass_seconds_ = 0;                   ///< that the trainer's clock has shown after the last step
  std::optional<std::int64_t> fewest_steps_;  ///< that a group has done between two synchronizations
};

}  // namespace lockstep
