// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/spin_backoff.hpp"
#include "comm/transport.hpp"
#include "parallel/gradient_reducer.hpp"

namespace lockstep {

/// Sums the gradients of a fixed number of shards in a fixed tree over their numbers: [lo, hi) is the sum of [lo, mid)
/// and [mid, hi), mid = (lo + hi) / 2. Rank r of R has the r-th of R equal runs of shards, one after the other, so that
/// the sum has the same bits on any number of ranks.
class DeterministicReducer final : public GradientReducer {
 public:
  /// Of `shards` shards, a multiple of the ranks; `gradients` is where each shard's are computed, and where the sum
  /// goes. Collective.
  DeterministicReducer(const Communicator& ranks, std::int64_t shards, const Tensor& gradients);

  void ready(const ExecSpace&, std::int64_t) override {}
  void shard_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space) override;
  double take_exposed_seconds() override;

  /// Buffers as large as the gradients that a rank has beside them, at most.
  static std::int64_t buffers(std::int64_t shards, int ranks);

 private:
  /// The shards from lo to before hi.
  struct Node {
    std::int64_t lo, hi;

    std::int64_t mid() const { return (lo + hi) / 2; }
    Node left() const { return {lo, mid()}; }
    Node right() const { return {mid(), hi}; }
    bool is_shard() const { return hi - lo == 1; }
    /// Left halves that may wait for their right ones at one time, while it is summed shard by shard.
    std::size_t depth() const { return is_shard() ? 0 : std::max(left().depth(), 1 + right().depth()); }
  };

  /// The largest nodes all of whose shards are in [first, end), in their order.
  static std::vector<Node> largest_within(const Node& node, std::int64_t first, std::int64_t end);
  static std::size_t most_depth(const std::vector<Node>& nodes);

  int owner(std::int64_t shard) const { return static_cast<int>(shard / each_); }
  bool is_local(const Node& node) const { return owner(node.lo) == owner(node.hi - 1); }
  Tensor sum_across(const ExecSpace& space, const Node& node);
  void send(const ExecSpace& space, const Tensor& from, int peer);
  void receive_and_add(const ExecSpace& space, int peer, const Tensor& to);

  Communicator ranks_;
  std::int64_t shards_, each_;  ///< each_: of a rank
  Tensor gradients_;
  std::unique_ptr<Transport> transport_;
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
