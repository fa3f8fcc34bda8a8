// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/shard_tree.hpp"

#include <iterator>

namespace lockstep {
namespace {

/// Elements that go in one message.
constexpr std::int64_t piece = std::int64_t{1} << 20;

std::vector<ShardNode> largest_within(const ShardNode& node, std::int64_t first, std::int64_t end) {
  if (node.hi <= first || node.lo >= end) return {};
  if (node.lo >= first && node.hi <= end) return {node};
  std::vector<ShardNode> nodes = largest_within(node.left(), first, end);
  std::ranges::copy(largest_within(node.right(), first, end), std::back_inserter(nodes));
  return nodes;
}

/// The sums of nodes that several ranks have a part of.
class AcrossRanks {
 public:
  AcrossRanks(int rank, int size, std::int64_t shards, std::int64_t count)
      : rank_(rank), size_(size), shards_(shards), count_(count) {}

  /// The node's sum is on the rank of its first shard, in the slot that begins with that shard.
  void sum(const ShardNode& node) {
    if (owner(node.lo) == owner(node.hi - 1)) return;
    sum(node.left());
    sum(node.right());
    const int to = owner(node.lo), from = owner(node.mid());
    for (std::int64_t first = 0; first < count_; first += piece) {
      const std::int64_t n = std::min(piece, count_ - first);
      Step step;
      if (from == rank_) step.send = {to, slot_of(node.mid()) * count_ + first, n, false};
      if (to == rank_) step.receive = {from, slot_of(node.lo) * count_ + first, n, false};
      if (step.send || step.receive) steps_.push_back(step);
    }
  }
  const Schedule& steps() const { return steps_; }

 private:
  int owner(std::int64_t shard) const { return static_cast<int>(shard / (shards_ / size_)); }
  /// This rank's slot whose node begins with this shard.
  std::int64_t slot_of(std::int64_t shard) const {
    return std::ranges::find(nodes_, shard, &ShardNode::lo) - nodes_.begin();
  }

  int rank_, size_;
  std::int64_t shards_, count_;
  std::vector<ShardNode> nodes_ = shard_nodes(rank_, size_, shards_);
  Schedule steps_;
};

}  // namespace

std::vector<ShardNode> shard_nodes(int rank, int size, std::int64_t shards) {
  const std::int64_t each = shards / size;
  return largest_within({0, shards}, rank * each, (rank + 1) * each);
}

Schedule shard_tree(int rank, int size, std::int64_t shards, std::int64_t count) {
  AcrossRanks across(rank, size, shards, count);
  across.sum({0, shards});
  Schedule steps = across.steps();
  for (const Step& step : tree_broadcast(rank, size, count)) steps.push_back(step);
  return steps;
}

}  // namespace lockstep
