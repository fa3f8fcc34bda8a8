// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/deterministic_reducer.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <utility>

#include "base/duration.hpp"
#include "comm/spin_backoff.hpp"
#include "core/tensor.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

OrderedSum::OrderedSum(std::int64_t count, DType dtype, std::int64_t size) : count_(count) {
  for (std::int64_t i = 0; i < buffers(count); ++i)
    halves_.emplace_back("lockstep::ordered_sum::half", dtype, Shape{size});
}

void OrderedSum::add(const ExecSpace& space, const Tensor& numbers) {
  std::array<ShardNode, 64> path{ShardNode{0, count_}};
  std::size_t length = 1;
  for (; !path[length - 1].is_shard(); ++length) {
    const ShardNode node = path[length - 1];
    path[length] = place_ < node.mid() ? node.left() : node.right();
  }
  for (; length > 1 && path[length - 1].lo > path[length - 2].lo; --length)
    accumulate(space, halves_[--waiting_].get(), numbers);
  if (length > 1) copy(space, numbers, halves_[waiting_++].get());
  else sum_ = numbers;
  place_ = (place_ + 1) % count_;
}

DeterministicReducer::DeterministicReducer(const Communicator& ranks, const ParallelConfig& config,
                                           const Tensor& gradients)
    : rank_(ranks.rank()), gradients_(gradients), executor_(make_transport(ranks)) {
  const std::int64_t shards = config.tree_leaves();
  assert(shards % ranks.size() == 0);
  ranks.run_collectively([&] {
    follow(equal_runs(ranks.size(), shards));
    const auto at = static_cast<std::size_t>(rank_);
    const std::int64_t count = config.measures_shares() ? buffers(config, ranks.size())
                                                        : shard_buffers(shards, runs_[at], runs_[at + 1]);
    for (std::int64_t i = 0; i < count; ++i)
      sums_.emplace_back("lockstep::shard_sum", gradients.dtype, gradients.shape);
    std::int64_t longest = 0;  // elements of a message
    for (const CommRound& step : schedule_) longest = std::max({longest, step.send.count, step.receive.count});
    const auto bytes = static_cast<std::size_t>(longest) * size_of(gradients.dtype);
    if (memory_is_separate) outgoing_.resize(bytes);
    incoming_.resize(bytes);
  });
}

std::int64_t DeterministicReducer::buffers(const ParallelConfig& config, int ranks) {
  const std::int64_t shards = config.tree_leaves();
  if (config.measures_shares()) return most_shard_buffers(shards, config.largest_share(shards, ranks));
  const ShardRuns runs = equal_runs(ranks, shards);
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank + 1 < runs.size(); ++rank)
    most = std::max(most, shard_buffers(shards, runs[rank], runs[rank + 1]));
  return most;
}

void DeterministicReducer::follow(ShardRuns runs) {
  runs_ = std::move(runs);
  schedule_ = shard_tree(rank_, runs_, gradients_.count());
  local_ = shard_nodes(rank_, runs_);
}

void DeterministicReducer::set_rank_shares(std::span<const std::int64_t> of_ranks) {
  const auto size = runs_.size() - 1;
  bool same = true;
  for (std::size_t rank = 0; rank < size && same; ++rank)
    same = runs_[rank + 1] - runs_[rank] ==
           (of_ranks.empty() ? runs_.back() / static_cast<std::int64_t>(size) : of_ranks[rank]);
  if (same) return;
  assert(added_ == 0);
  ShardRuns runs = equal_runs(static_cast<int>(size), runs_.back());
  if (!of_ranks.empty()) std::partial_sum(of_ranks.begin(), of_ranks.end(), runs.begin() + 1);
  follow(std::move(runs));
}

void DeterministicReducer::gradient_sum_done(const ExecSpace& space) {
  const std::int64_t shard = runs_[static_cast<std::size_t>(rank_)] + added_++;
  // The path from the node down to this shard. Right halves on it end with this shard, if it is their last one.
  std::vector<ShardNode> path{local_[node_]};
  while (!path.back().is_shard()) {
    const ShardNode node = path.back();
    path.push_back(shard < node.mid() ? node.left() : node.right());
  }
  // Adds up what is complete with this shard: gradients_ holds the right half, and the last half that waits is the left
  // one.
  while (path.size() > 1 && path.back().lo > path[path.size() - 2].lo) {
    accumulate(space, sums_[node_ + waiting_.size() - 1].get(), gradients_);
    waiting_.pop_back();
    path.pop_back();
  }
  if (path.size() == 1) {
    copy(space, gradients_, sums_[node_++].get());
  } else {
    copy(space, gradients_, sums_[node_ + waiting_.size()].get());
    waiting_.push_back(path.back());
  }
}

void DeterministicReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (!schedule_.empty()) wait_for_kernels(space);  // a single rank has nothing to send
  const Timer timer;
  assert(node_ == local_.size() && waiting_.empty());
  space_ = &space;
  executor_.start(schedule_, *this);
  SpinBackoff backoff;
  for (std::size_t before = 0; !executor_.advance(); before = executor_.steps_done()) {
    meanwhile();
    if (executor_.steps_done() == before) backoff.pause();
    else backoff.reset();
  }
  copy(space, sums_.front().get(), gradients_);
  added_ = 0;
  node_ = 0;
  exposed_seconds_ += timer.seconds();
}

/// Returns these elements of the sums, counted over all sums, each of which has as many as the gradients.
Tensor DeterministicReducer::sums_at(const CommRound::Part& part) const {
  const std::int64_t count = gradients_.count();
  return flat_part(sums_[static_cast<std::size_t>(part.first / count)].get(), {part.first % count, part.count});
}

std::span<const std::byte> DeterministicReducer::outgoing(const CommRound::Part& part) {
  const Tensor sums = sums_at(part);
  if constexpr (memory_is_separate) {
    copy_to_host(*space_, sums, outgoing_.data());
    return {outgoing_.data(), sums.bytes()};
  } else {
    space_->fence("lockstep::deterministic_reducer");
    return {static_cast<const std::byte*>(sums.data), sums.bytes()};
  }
}

std::span<std::byte> DeterministicReducer::incoming(const CommRound::Part& part) {
  const Tensor sums = sums_at(part);
  const bool in_place = !memory_is_separate && part.final;
  return {in_place ? static_cast<std::byte*>(sums.data) : incoming_.data(), sums.bytes()};
}

void DeterministicReducer::arrived(const CommRound::Part& part) {
  const Tensor sums = sums_at(part);
  if constexpr (!memory_is_separate) {
    if (!part.final) accumulate(*space_, {incoming_.data(), sums.dtype, sums.shape}, sums);
  } else if (part.final) {
    copy_from_host(*space_, incoming_.data(), sums);
  } else {
    const Tensor staged = flat_part(gradients_, {0, part.count});  // its numbers are in the sums already
    copy_from_host(*space_, incoming_.data(), staged);
    accumulate(*space_, staged, sums);
  }
}

double DeterministicReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
