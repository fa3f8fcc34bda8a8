// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch_partition.hpp"
#include "train/balance/pass_times.hpp"

namespace lockstep {

/// Decides each rank's share of the batch from the time that its passes take for one example (parallel.shares:
/// measured). Shares with which all ranks take equally long are stable whatever a step costs besides its examples: with
/// fewer examples, a rank's time for each is longer.
class ShareBalance {
 public:
  /// Steps between two comparisons.
  static constexpr std::int64_t every = 16;

  /// `batch` is the largest global batch.
  ShareBalance(const Communicator& comm, const BatchPartition& partition, std::int64_t batch);

  /// Records a step of this rank: the seconds of its passes over `examples`, without waits for other ranks.
  void step_done(double seconds, std::int64_t examples);
  /// Returns shares (BatchPartition::rank_shares) with which the slowest rank would finish sooner, if the gain is worth
  /// a change. Collective.
  std::optional<std::vector<std::int64_t>> compare() const;
  /// Sets the shares that are in force.
  void set(const std::vector<std::int64_t>& shares) { partition_.rank_shares = shares; }
  const BatchPartition& partition() const { return partition_; }

 private:
  Communicator comm_;
  BatchPartition partition_;
  std::int64_t total_;  ///< sum of all shares
  PassTimes times_;     ///< seconds for one example
};

}  // namespace lockstep
