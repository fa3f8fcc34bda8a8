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

/// Gives slower ranks less work, by the measured time of their passes: smaller shares of the batch (parallel.shares:
/// measured), or, for their groups, fewer steps between two synchronizations (parallel.local.steps_by_speed).
class LoadBalance {
 public:
  /// `syncs` belongs to the trainer's strategy. `batch` is the largest global batch. `trainer` and `syncs` must outlive
  /// this object.
  LoadBalance(const ParallelConfig& config, const Communicator& comm, Trainer& trainer, ReplicaSync& syncs,
              std::int64_t batch);

  /// Call after the trainer has done steps, in which it has waited for other ranks for `exposed`. Returns the parts
  /// (BatchPartition::rank_shares) by which batches are to be divided from now on; none if the division stays.
  /// Collective.
  std::optional<std::vector<std::int64_t>> steps_done(const Trainer::ExposedSeconds& exposed);
  /// Sets the shares by which batches are divided. Only where shares are measured, on several ranks.
  void set(const std::vector<std::int64_t>& shares) { shares_->set(shares); }
  /// How a batch is divided now.
  const BatchPartition& partition() const { return shares_ ? shares_->partition() : trainer_.partition(); }
  /// Whether groups of ranks may leave out steps.
  bool paces_groups() const { return pass_times_.has_value(); }

 private:
  std::optional<std::vector<std::int64_t>> compare_shares(double seconds);
  void pace_groups(double seconds);

  Communicator comm_;
  Trainer& trainer_;
  ReplicaSync& syncs_;
  std::optional<ShareBalance> shares_;
  std::optional<PassTimes> pass_times_;       ///< of steps since the last synchronization
  double pass_seconds_ = 0;                   ///< pass seconds on the trainer's clock after the last step
  std::optional<std::int64_t> fewest_steps_;  ///< fewest steps that a group was given between two synchronizations
};

}  // namespace lockstep
