// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/topology.hpp"
#include "data/batch_partition.hpp"

namespace lockstep {

/// The group of ranks that does steps together with this rank, where groups step by themselves.
class StepGroup {
 public:
  /// `group` are the ranks of this rank's group, out of `all`. `partition` divides batches among all ranks. Collective.
  StepGroup(const Communicator& all, const Communicator& group, const BatchPartition& partition);

  const Communicator& ranks() const { return ranks_; }
  /// Numbers of the group's ranks among all ranks.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  int size() const { return ranks_.size(); }
  /// Number of this group, and number of groups.
  int number() const { return number_; }
  int count() const { return count_; }
  const BatchPartition& partition() const { return partition_; }
  /// Number of examples of this group in a batch of `of_batch`.
  std::int64_t examples(std::int64_t of_batch);

 private:
  Communicator ranks_;
  std::vector<std::int64_t> numbers_;
  int number_, count_;
  BatchPartition partition_;
  std::int64_t of_batch_ = 0, examples_ = 0;  ///< last argument and result of examples()
};

}  // namespace lockstep
