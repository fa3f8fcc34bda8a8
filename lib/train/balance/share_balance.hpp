// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch_partition.hpp"
#include "train/balance/pass_times.hpp"

namespace lockstep {

/// Which shares of batches ranks are to have, by the time that their passes have taken an example (parallel.shares:
/// measured). Shares by which all ranks take equally long stay as they are, whatever a step costs beside its examples:
/// with fewer of these a rank's time for each is longer.
class ShareBalance {
 public:
  /// Steps between two comparisons.
  static constexpr std::int64_t every = 16;

  /// `batch`: the largest one.
  ShareBalance(const Communicator& comm, const BatchPartition& partition, std::int64_t batch);

  /// This rank's passes of a step over so many examples have taken so long, without waits for others.
  void step_done(double seconds, std::int64_t examples);
  /// Shares (BatchPartition) with which the slowest rank would be done sooner, where that is worth a change.
  /// Collective.
  std::optional<std::vector<std::int64_t>> compare() const;
  /// These are in force.
  void set(const std::vector<std::int64_t>& shares) { partition_.rank_shares = shares; }
  const BatchPartition& partition() const { return partition_; }

 private:
  Communicator comm_;
  BatchPartition partition_;
  std::int64_t total_;  ///< of all shares
  PassTimes times_;     ///< of an example
};

}  // namespace lockstep
