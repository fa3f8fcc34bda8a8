// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"

namespace lockstep {

/// A node of a fixed binary tree over numbered shards, covering shards [lo, hi). Its sum is the sum of its left half
/// plus that of its right half.
struct ShardNode {
  std::int64_t lo, hi;

  std::int64_t mid() const { return (lo + hi) / 2; }
  ShardNode left() const { return {lo, mid()}; }
  ShardNode right() const { return {mid(), hi}; }
  bool is_shard() const { return hi - lo == 1; }
  /// Largest number of left halves that wait for their right ones while the node is summed shard by shard.
  std::int64_t depth() const { return std::bit_width(static_cast<std::uint64_t>(hi - lo - 1)); }
};

/// Distribution of shards to ranks in runs: rank r has shards runs[r] to runs[r + 1] − 1, at least one.
using ShardRuns = std::vector<std::int64_t>;

/// Equal runs; `shards` must be a multiple of `size`.
ShardRuns equal_runs(int size, std::int64_t shards);

/// The largest tree nodes whose shards all belong to `rank`, in order.
std::vector<ShardNode> shard_nodes(int rank, const ShardRuns& runs);

/// Number of buffers for sums that a rank with shards [first, end) of `shards` needs when it adds them up in order: the
/// sum of its i-th node goes into the i-th buffer, and waiting left halves within that node occupy this buffer and
/// those after it.
std::int64_t shard_buffers(std::int64_t shards, std::int64_t first, std::int64_t end);
/// Maximum of shard_buffers over all runs of at most `longest` shards.
std::int64_t most_shard_buffers(std::int64_t shards, std::int64_t longest);

/// Schedule from the sums of each rank's nodes to the sum of all shards on every rank, with the same bits however
/// shards are distributed. The buffer has one slot of `count` elements for each of shard_nodes, in order; the result is
/// left in the first slot.
CommSchedule shard_tree(int rank, const ShardRuns& runs, std::int64_t count);

}  // namespace lockstep
