// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/collective/schedule.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// A rank's place among those that divide sums: it says which elements of a stretch the rank owns. The stretch is cut
/// into parts, one for each leader that a node has; each of these into one for each node; and each of those into one
/// for each of the node's ranks. All cuts are slice_of_rank's: between blocks. Pure.
struct ShardPlace {
  std::vector<int> node = {0};  ///< this rank's node, by its place among the leaders of each number
  int nodes = 1;
  int rank = 0, ranks = 1;  ///< of the node

  /// Of ranks that share no memory: rank r of P owns slice_of_rank(count, r, P).
  static ShardPlace of_rank(int rank, int ranks) { return {.node = {rank}, .nodes = ranks}; }
  /// Of ranks that share memory in their nodes, so many of which sum between nodes.
  static ShardPlace of_node(const Topology& topology, int leaders);

  int leaders() const { return static_cast<int>(node.size()); }
  /// What the rank owns of a leader's part of the stretch [0, count).
  Stretch of_leader(int leader, std::int64_t count) const;
  /// What it owns of elements [first, first + count), in rising order; none of it is empty.
  std::vector<Stretch> owned(std::int64_t first, std::int64_t count) const;
};

}  // namespace lockstep
