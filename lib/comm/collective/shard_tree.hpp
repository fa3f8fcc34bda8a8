// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <bit>
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
  std::int64_t depth() const { return std::bit_width(static_cast<std::uint64_t>(hi - lo - 1)); }
};

/// How shards are dealt out to ranks, in runs: rank r has shards runs[r] to runs[r + 1] − 1, at least one.
using ShardRuns = std::vector<std::int64_t>;

/// Runs of equally many shards, a multiple of the ranks.
ShardRuns equal_runs(int size, std::int64_t shards);

/// The largest nodes all of whose shards rank `rank` has, in their order.
std::vector<ShardNode> shard_nodes(int rank, const ShardRuns& runs);

/// Buffers for sums that a rank needs which has the shards from `first` to before `end` of `shards`, and adds them up
/// one after the other: the i-th of its nodes comes into the i-th buffer, and the left halves that wait within it are
/// in that one and those after it.
std::int64_t shard_buffers(std::int64_t shards, std::int64_t first, std::int64_t end);
/// The most that shard_buffers says of any run of up to `longest` shards.
std::int64_t most_shard_buffers(std::int64_t shards, std::int64_t longest);

/// From the sums of each rank's nodes to that of all shards on every rank: the same bits whoever has which. The
/// buffer has a slot of `count` elements for each of shard_nodes, one after the other; the sum comes into the first
/// one.
Schedule shard_tree(int rank, const ShardRuns& runs, std::int64_t count);

}  // namespace lockstep
