// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch_partition.hpp"

namespace lockstep {

/// How many of a period's steps, from the first one on, each group of ranks does: slow ones fewer, so that all
/// synchronize at about the same time (dynamic local updates: Liu et al. 2024, "Asynchronous Local-SGD training for
/// language modeling"). At first all do all.
class PeriodSteps {
 public:
  /// `group`: of this rank, from 0 on; `every`: steps of a period. Collective.
  PeriodSteps(const Communicator& ranks, int group, std::int64_t every);

  /// From the next period on, by the time that each rank's step takes, in any unit; a group waits for its slowest rank.
  void follow(std::span<const double> times);
  std::int64_t fewest() const { return std::ranges::min(steps_); }
  /// Whether a group does the step of a period that has this number, from 1 on.
  bool does(std::int64_t group, std::int64_t number) const { return number <= steps_[static_cast<std::size_t>(group)]; }
  /// Examples of a batch that groups compute which do the step of this number.
  std::int64_t examples(const BatchPartition& partition, std::int64_t global_examples, std::int64_t number) const;

 private:
  std::vector<std::int64_t> group_of_;  ///< each rank
  std::int64_t every_;
  std::vector<std::int64_t> steps_;  ///< of each group
};

}  // namespace lockstep
