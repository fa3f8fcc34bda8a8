// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/gradient_sum.hpp"
#include "comm/link.hpp"

namespace lockstep {

/// Sums the gradients of a fixed number of shards in a fixed tree over their numbers: [lo, hi) is the sum of [lo, mid)
/// and [mid, hi), mid = (lo + hi) / 2. Rank r of R has the r-th of R equal runs of shards, one after the other, so that
/// the sum has the same bits on any number of ranks.
class ShardTree final : public GradientSum {
 public:
  /// Of `shards` shards, a multiple of the ranks; `gradients` is where each shard's are computed, and where the sum
  /// goes. Collective.
  ShardTree(const Communicator& ranks, std::int64_t shards, const Tensor& gradients);

  void ready(const ExecSpace&, std::int64_t) override {}
  void shard_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space) override;
  double take_exposed_seconds() override;

  /// Bytes beside the gradients, on this rank.
  std::size_t bytes() const;

 private:
  /// The shards from lo to before hi.
  struct Node {
    std::int64_t lo, hi;
  };

  int owner(std::int64_t shard) const { return static_cast<int>(shard / each_); }
  bool is_local(const Node& node) const { return owner(node.lo) == owner(node.hi - 1); }
  void find_local_nodes(const Node& node);
  std::size_t depth_of(const Node& node) const;
  Tensor sum_across(const ExecSpace& space, const Node& node);
  void send(const ExecSpace& space, const Tensor& from, int peer);
  void receive_and_add(const ExecSpace& space, int peer, const Tensor& to);

  Communicator ranks_;
  std::int64_t shards_, each_;  ///< each_: of a rank
  Tensor gradients_;
  std::unique_ptr<Link> link_;
  std::vector<Node> local_;           ///< the largest nodes whose shards are all this rank's, in their order
  std::vector<OwnedTensor> sums_;     ///< theirs
  std::vector<OwnedTensor> partial_;  ///< left halves that wait for their right ones
  std::vector<Node> waiting_;         ///< these
  std::int64_t added_ = 0;            ///< shards of this rank
  std::size_t node_ = 0;              ///< of local_, to which the next shard belongs
  std::vector<std::byte> outgoing_, incoming_;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
