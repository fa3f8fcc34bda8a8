// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>

#include "comm/parallel_config.hpp"
#include "scaling/replay.hpp"

namespace lockstep {

/// The sums of a step over the ranks of a machine, one after the other; each size is worked out once.
class Sums {
 public:
  Sums(const Machine& machine, int ranks, const ParallelConfig& config);

  /// The sum of `count` elements of gradients, which are added as `element_bytes` and travel as `wire_bytes`.
  SumTime of(std::int64_t count, double element_bytes, double wire_bytes);
  /// The sum of a few bytes of each rank, added in the order of ranks (OrderedReduce): votes, and statistics.
  SumTime ordered(double bytes);

  bool one_node() const { return machine_.nodes_of(ranks_) == 1; }

 private:
  SumTime hierarchical(std::int64_t count, double element_bytes, double wire_bytes) const;
  SumTime by_messages(const Algorithm* algorithm, const Fabric& fabric, std::int64_t count, double element_bytes,
                      double wire_bytes) const;

  const Machine& machine_;
  int ranks_;
  const ParallelConfig& config_;
  std::map<std::pair<std::int64_t, double>, SumTime> known_;  // by count and bytes on the wire
  std::map<double, SumTime> known_ordered_;
};

}  // namespace lockstep
