// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/topology.hpp"
#include "data/batch_partition.hpp"

namespace lockstep {

/// The ranks that do steps together, of groups that step by themselves.
class StepGroup {
 public:
  /// `group`: this rank's, of `all`. `partition`: of batches among all ranks. Collective.
  StepGroup(const Communicator& all, const Communicator& group, const BatchPartition& partition);

  const Communicator& ranks() const { return ranks_; }
  /// The numbers of the group's ranks among all ranks.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  int size() const { return ranks_.size(); }
  /// The number of this group, and how many there are.
  int number() const { return number_; }
  int count() const { return count_; }
  const BatchPartition& partition() const { return partition_; }
  /// The examples of this group, of a batch of so many.
  std::int64_t examples(std::int64_t of_batch);

 private:
  Communicator ranks_;
  std::vector<std::int64_t> numbers_;
  int number_, count_;
  BatchPartition partition_;
  std::int64_t of_batch_ = 0, examples_ = 0;  ///< the last answer
};

}  // namespace lockstep
