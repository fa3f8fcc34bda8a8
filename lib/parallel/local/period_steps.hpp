// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch_partition.hpp"

namespace lockstep {

/// How many of a period's steps, from the first one on, each group of ranks does: slow groups do fewer, so that all
/// synchronize at about the same time (dynamic local updates: Liu et al. 2024, "Asynchronous Local-SGD training for
/// language modeling"). At first, all groups do all steps.
class PeriodSteps {
 public:
  /// `group` is the number of this rank's group, from 0 on; `every` is the number of steps in a period. Collective.
  PeriodSteps(const Communicator& ranks, int group, std::int64_t every);

  /// Sets the steps of the following periods by the time of a step on each rank, in any unit; a group waits for its
  /// slowest rank.
  void follow(std::span<const double> times);
  std::int64_t fewest() const { return std::ranges::min(steps_); }
  /// Whether a group does step number `number` of a period, from 1 on.
  bool does(std::int64_t group, std::int64_t number) const { return number <= steps_[static_cast<std::size_t>(group)]; }
  /// Number of examples of a batch that are computed in step number `number` of a period, by the groups that do it.
  std::int64_t examples(const BatchPartition& partition, std::int64_t global_examples, std::int64_t number) const;

 private:
  std::vector<std::int64_t> group_of_;  ///< of each rank
  std::int64_t every_;
  std::vector<std::int64_t> steps_;  ///< of each group
};

}  // namespace lockstep
