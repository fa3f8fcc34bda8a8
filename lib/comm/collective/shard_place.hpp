// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/collective/schedule.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// Determines which elements of a range a rank owns when sums are divided. A range has one part per leader of a node.
/// Each part has one slice per node, and each slice one piece per rank of the node. The pieces of each leader's part
/// start at a different rank, so small ranges spread over all ranks. All cuts are those of slice_of_rank, between
/// blocks. Pure.
struct ShardPlace {
  /// For each leader number: position of this node's leader among the leaders of that number in all nodes.
  std::vector<int> node = {0};
  int nodes = 1;
  int rank = 0, ranks = 1;  ///< rank within the node, and ranks of the node

  /// Place of a rank that shares no memory: rank r of P owns slice_of_rank(count, r, P).
  static ShardPlace of_rank(int rank, int ranks) { return {.node = {rank}, .nodes = ranks}; }
  /// Place of a rank that shares memory within its node, of which `leaders` ranks sum between nodes.
  static ShardPlace of_node(const Topology& topology, int leaders);

  int leaders() const { return static_cast<int>(node.size()); }
  /// Elements that the rank owns of a leader's part of the range [0, count).
  ElementRange of_leader(int leader, std::int64_t count) const;
  /// Elements of `all` that the rank owns: ranges in rising order, none empty.
  std::vector<ElementRange> owned(const ElementRange& all) const;
};

/// Returns the number of elements of these ranges that the rank with the most of them owns, if each of `nodes` has
/// `ranks`, and `leaders` of each node sum between nodes.
std::int64_t most_owned(const std::vector<ElementRange>& ranges, int nodes, int ranks, int leaders);

}  // namespace lockstep
