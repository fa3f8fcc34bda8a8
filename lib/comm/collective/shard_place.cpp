// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/shard_place.hpp"

#include <algorithm>
#include <map>

namespace lockstep {
namespace {

ElementRange slice_within(const ElementRange& range, int number, int slices) {
  const ElementRange slice = slice_of_rank(range.count, number, slices);
  return {range.first + slice.first, slice.count};
}

}  // namespace

ShardPlace ShardPlace::of_node(const Topology& topology, int leaders) {
  ShardPlace place{.node = std::vector<int>(static_cast<std::size_t>(leaders)),
                   .nodes = topology.nodes,
                   .rank = topology.node.rank(),
                   .ranks = topology.node.size()};
  const int mine = topology.node_of[static_cast<std::size_t>(topology.all.rank())];
  std::vector<int> found(static_cast<std::size_t>(topology.nodes)), of_number(static_cast<std::size_t>(leaders));
  for (const int node : topology.node_of) {
    const auto number = static_cast<std::size_t>(found[static_cast<std::size_t>(node)]++);
    if (number >= of_number.size()) continue;
    if (node == mine) place.node[number] = of_number[number];
    ++of_number[number];
  }
  return place;
}

ElementRange ShardPlace::of_leader(int leader, std::int64_t count) const {
  const ElementRange part = slice_of_rank(count, leader, leaders());
  return slice_within(slice_within(part, node[static_cast<std::size_t>(leader)], nodes), (rank + leader) % ranks,
                      ranks);
}

std::vector<ElementRange> ShardPlace::owned(const ElementRange& all) const {
  std::vector<ElementRange> ranges;
  for (int leader = 0; leader < leaders(); ++leader) {
    const ElementRange own = of_leader(leader, all.count);
    if (own.count > 0) ranges.push_back({all.first + own.first, own.count});
  }
  return ranges;
}

std::int64_t most_owned(const std::vector<ElementRange>& ranges, int nodes, int ranks, int leaders) {
  std::map<std::int64_t, std::int64_t> ranges_of_size;
  for (const ElementRange& range : ranges) ++ranges_of_size[range.count];
  std::int64_t most = 0;
  for (int node = 0; node < nodes; ++node)
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardPlace place{.node = std::vector<int>(static_cast<std::size_t>(leaders), node),
                             .nodes = nodes,
                             .rank = rank,
                             .ranks = ranks};
      std::int64_t owned = 0;
      for (const auto& [count, times] : ranges_of_size)
        for (int leader = 0; leader < leaders; ++leader) owned += times * place.of_leader(leader, count).count;
      most = std::max(most, owned);
    }
  return most;
}

}  // namespace lockstep
