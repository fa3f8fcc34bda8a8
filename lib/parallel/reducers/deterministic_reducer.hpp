// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "comm/collective/executor.hpp"
#include "comm/collective/shard_tree.hpp"
#include "core/tensor.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/reducers/gradient_reducer.hpp"

namespace lockstep {

/// The sum of a fixed number of flat tensors, f32 or f64, that come one after the other. They are, in this order, the
/// leaves of DeterministicReducer's tree.
class OrderedSum {
 public:
  /// A sum of `count` tensors of `size` elements.
  OrderedSum(std::int64_t count, DType dtype, std::int64_t size);

  /// Number of tensors that are allocated besides those that come.
  static std::int64_t buffers(std::int64_t count) { return ShardNode{0, count}.depth(); }

  /// Adds the next tensor, whose memory a partial sum takes. After the last tensor, the next one is the first of
  /// another sum.
  void add(const ExecSpace& space, const Tensor& numbers);
  /// The last complete sum, in the memory of its last summand; empty before there is one.
  const Tensor& sum() const { return sum_; }

 private:
  std::int64_t count_;
  std::vector<OwnedTensor> halves_;  ///< left halves of tree nodes
  std::int64_t place_ = 0;
  std::size_t waiting_ = 0;  ///< number of halves_ that wait for right ones
  Tensor sum_;
};

/// Sums the gradients of a fixed number of shards in a fixed tree over their numbers: [lo, hi) is the sum of [lo, mid)
/// and [mid, hi), with mid = (lo + hi) / 2. Each rank has a run of consecutive shards, and adds up within it what the
/// tree adds up there, so that the sum has the same bits on any number of ranks and with any runs.
class DeterministicReducer final : public GradientReducer, Payload {
 public:
  /// Runs are equal until others are dealt out, up to config.largest_share. `gradients` is where the gradients of each
  /// shard are computed, and where the sum goes. Collective.
  DeterministicReducer(const Communicator& ranks, const ParallelConfig& config, const Tensor& gradients);

  void begin_step(const BatchPlan& batch) override { set_rank_shares(batch.rank_shares); }
  void ready(const ExecSpace&, std::int64_t) override {}
  void gradient_sum_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  double take_exposed_seconds() override;

  /// Largest number of buffers, each as large as the gradients, that a rank has besides them.
  static std::int64_t buffers(const ParallelConfig& config, int ranks);

 private:
  // Sums of this rank's nodes, as in the schedule of shard_tree.
  std::span<const std::byte> outgoing(const CommRound::Part& part) override;
  std::span<std::byte> incoming(const CommRound::Part& part) override;
  void arrived(const CommRound::Part& part) override;
  Tensor sums_at(const CommRound::Part& part) const;
  /// Gives each rank so many consecutive shards in the next steps, in the order of ranks; empty: equally many.
  void set_rank_shares(std::span<const std::int64_t> of_ranks);
  void follow(ShardRuns runs);

  int rank_;
  Tensor gradients_;
  Executor executor_;
  ShardRuns runs_;
  CommSchedule schedule_;
  std::vector<ShardNode> local_;      ///< the largest nodes whose shards are all this rank's, in order
  std::vector<OwnedTensor> sums_;     ///< their sums; of the current node also left halves that wait for right ones
  std::vector<ShardNode> waiting_;    ///< nodes of these left halves
  std::int64_t added_ = 0;            ///< shards of this rank added so far
  std::size_t node_ = 0;              ///< index in local_ of the node of the next shard
  const ExecSpace* space_ = nullptr;  ///< while sums are exchanged
  std::vector<std::byte> outgoing_;   ///< message, if the host cannot read the sums
  std::vector<std::byte> incoming_;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
