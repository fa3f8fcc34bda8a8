// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "train/trainer.hpp"

namespace lockstep {

/// Times of this rank's passes in the newest steps in which it had examples, without waits for other ranks.
class PassTimes {
 public:
  /// Adds the seconds for one example of a step.
  void add(double seconds) { seconds_[static_cast<std::size_t>(steps_++ % kept)] = seconds; }
  /// Returns each rank's median in whole picoseconds, so that all ranks compute with the same numbers; an empty vector
  /// if some rank has no times. Collective.
  std::vector<double> medians(const Communicator& ranks) const;

 private:
  static constexpr std::int64_t kept = 16;
  std::array<double, kept> seconds_{};
  std::int64_t steps_ = 0;
};

/// Decides each rank's share of the batch from the time that its passes take for one example (parallel.shares:
/// measured). Shares with which all ranks take equally long are stable whatever a step costs besides its examples: with
/// fewer examples, a rank's time for each is longer.
class ShareBalance {
 public:
  /// `batch` is the largest global batch. `trainer` must outlive this object.
  ShareBalance(const Communicator& comm, Trainer& trainer, std::int64_t batch);

  /// Call after the trainer has done a step, in which it has waited for other ranks for `exposed`. Returns shares
  /// (BatchPartition::rank_shares) with which the slowest rank would finish sooner, if the gain is worth a change; else
  /// none. Collective.
  std::optional<std::vector<std::int64_t>> step_done(const Trainer::ExposedSeconds& exposed);
  /// Sets the shares that are in force.
  void set(const std::vector<std::int64_t>& shares) { partition_.rank_shares = shares; }
  const BatchPartition& partition() const { return partition_; }

 private:
  std::optional<std::vector<std::int64_t>> compare() const;

  Communicator comm_;
  Trainer& trainer_;
  BatchPartition partition_;
  std::int64_t total_;  ///< sum of all shares
  PassTimes times_;
  double pass_seconds_ = 0;  ///< pass seconds on the trainer's clock after the last step
};

}  // namespace lockstep
