// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/shard_tree.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep {
namespace {

/// Elements per message.
constexpr std::int64_t piece = std::int64_t{1} << 20;

std::vector<ShardNode> largest_within(const ShardNode& node, std::int64_t first, std::int64_t end) {
  if (node.hi <= first || node.lo >= end) return {};
  if (node.lo >= first && node.hi <= end) return {node};
  std::vector<ShardNode> nodes = largest_within(node.left(), first, end);
  std::ranges::copy(largest_within(node.right(), first, end), std::back_inserter(nodes));
  return nodes;
}

struct Buffers {
  std::int64_t nodes = 0, most = 0;
};

/// Counts the buffers for shards [first, end) within this node; nodes to its left are already counted.
void count_buffers(const ShardNode& node, std::int64_t first, std::int64_t end, Buffers& buffers) {
  if (node.hi <= first || node.lo >= end) return;
  if (node.lo >= first && node.hi <= end) {
    buffers.most = std::max(buffers.most, buffers.nodes + std::max<std::int64_t>(1, node.depth()));
    ++buffers.nodes;
    return;
  }
  count_buffers(node.left(), first, end, buffers);
  count_buffers(node.right(), first, end, buffers);
}

/// Sums of tree nodes whose shards belong to several ranks.
class AcrossRanks {
 public:
  AcrossRanks(int rank, const ShardRuns& runs, std::int64_t count)
      : rank_(rank), runs_(runs), count_(count), nodes_(shard_nodes(rank, runs)) {}

  /// Leaves the node's sum on the rank of its first shard, in the slot whose node begins with that shard.
  void sum(const ShardNode& node) {
    if (owner(node.lo) == owner(node.hi - 1)) return;
    sum(node.left());
    sum(node.right());
    const int to = owner(node.lo), from = owner(node.mid());
    for (std::int64_t first = 0; first < count_; first += piece) {
      const std::int64_t n = std::min(piece, count_ - first);
      CommRound step;
      if (from == rank_) step.send = {to, slot_of(node.mid()) * count_ + first, n, false};
      if (to == rank_) step.receive = {from, slot_of(node.lo) * count_ + first, n, false};
      if (step.send || step.receive) steps_.push_back(step);
    }
  }
  const CommSchedule& steps() const { return steps_; }

 private:
  int owner(std::int64_t shard) const {
    return static_cast<int>(std::ranges::upper_bound(runs_, shard) - runs_.begin()) - 1;
  }
  /// Number of this rank's slot whose node begins with this shard.
  std::int64_t slot_of(std::int64_t shard) const {
    return std::ranges::find(nodes_, shard, &ShardNode::lo) - nodes_.begin();
  }

  int rank_;
  const ShardRuns& runs_;
  std::int64_t count_;
  std::vector<ShardNode> nodes_;
  CommSchedule steps_;
};

}  // namespace

ShardRuns equal_runs(int size, std::int64_t shards) {
  ShardRuns runs;
  for (int rank = 0; rank <= size; ++rank) runs.push_back(rank * (shards / size));
  return runs;
}

std::vector<ShardNode> shard_nodes(int rank, const ShardRuns& runs) {
  const auto at = static_cast<std::size_t>(rank);
  return largest_within({0, runs.back()}, runs[at], runs[at + 1]);
}

std::int64_t shard_buffers(std::int64_t shards, std::int64_t first, std::int64_t end) {
  Buffers buffers;
  count_buffers({0, shards}, first, end, buffers);
  return buffers.most;
}

std::int64_t most_shard_buffers(std::int64_t shards, std::int64_t longest) {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < shards; ++first)
    for (std::int64_t end = first + 1; end <= std::min(shards, first + longest); ++end)
      most = std::max(most, shard_buffers(shards, first, end));
  return most;
}

CommSchedule shard_tree(int rank, const ShardRuns& runs, std::int64_t count) {
  AcrossRanks across(rank, runs, count);
  across.sum({0, runs.back()});
  CommSchedule steps = across.steps();
  for (const CommRound& step : tree_broadcast(rank, static_cast<int>(runs.size()) - 1, count)) steps.push_back(step);
  return steps;
}

}  // namespace lockstep
