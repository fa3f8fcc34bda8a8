// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"

namespace lockstep {

/// A node of a fixed tree over numbered shards: those from lo to before hi. Its sum is that of its left half plus that
/// of its right half.
struct ShardNode {
  std::int64_t lo, hi;

  std::int64_t mid() const { return (lo + hi) / 2; }
  ShardNode left() const { return {lo, mid()}; }
  ShardNode right() const { return {mid(), hi}; }
  bool is_shard() const { return hi - lo == 1; }
  /// Left halves that may wait for their right ones at one time, while it is summed shard by shard.
  std::size_t depth() const { return is_shard() ? 0 : std::max(left().depth(), 1 + right().depth()); }
};

/// The largest nodes all of whose shards rank `rank` of `size` has, in their order. `shards` is a multiple of the
/// ranks; each has a run of equally many.
std::vector<ShardNode> shard_nodes(int rank, int size, std::int64_t shards);

/// From the sums of each rank's nodes to that of all shards on every rank: the same bits on any number of ranks. The
/// buffer has a slot of `count` elements for each of shard_nodes, one behind the other; the sum comes into the first
/// one.
Schedule shard_tree(int rank, int size, std::int64_t shards, std::int64_t count);

}  // namespace lockstep
