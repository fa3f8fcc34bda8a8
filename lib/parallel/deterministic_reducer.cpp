// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/deterministic_reducer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/timer.hpp"
#include "comm/spin_backoff.hpp"

namespace lockstep {
namespace {

template <class C>
void accumulate(const ExecSpace& space, std::int64_t count, const C* from, C* to) {
  Kokkos::parallel_for(
      "lockstep::deterministic_reducer::add", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { to[i] += from[i]; });
}

/// to += from.
void accumulate(const ExecSpace& space, const Tensor& from, const Tensor& to) {
  dispatch_master(to.dtype, [&]<class C>(C) { accumulate<C>(space, to.count(), from.as<const C>(), to.as<C>()); });
}

Tensor part_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(first) * size_of(tensor.dtype),
          tensor.dtype,
          {count}};
}

std::size_t most_depth(const std::vector<ShardNode>& nodes) {
  std::size_t most = 0;
  for (const ShardNode& node : nodes) most = std::max(most, node.depth());
  return most;
}

}  // namespace

DeterministicReducer::DeterministicReducer(const Communicator& ranks, std::int64_t shards, const Tensor& gradients)
    : rank_(ranks.rank()),
      each_(shards / ranks.size()),
      gradients_(gradients),
      executor_(make_transport(ranks)),
      schedule_(shard_tree(rank_, ranks.size(), shards, gradients.count())),
      local_(shard_nodes(rank_, ranks.size(), shards)) {
  assert(shards % ranks.size() == 0);
  ranks.run_collectively([&] {
    for (std::size_t i = 0; i < local_.size(); ++i)
      sums_.emplace_back("lockstep::shard_sum", gradients.dtype, gradients.shape);
    for (std::size_t i = 0; i < most_depth(local_); ++i)
      partial_.emplace_back("lockstep::shard_part", gradients.dtype, gradients.shape);
    std::int64_t longest = 0;  // message
    for (const Step& step : schedule_) longest = std::max({longest, step.send.count, step.receive.count});
    const auto bytes = static_cast<std::size_t>(longest) * size_of(gradients.dtype);
    if (memory_is_separate) outgoing_.resize(bytes);
    incoming_.resize(bytes);
  });
}

std::int64_t DeterministicReducer::buffers(std::int64_t shards, int ranks) {
  std::size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<ShardNode> nodes = shard_nodes(rank, ranks, shards);
    most = std::max(most, nodes.size() + most_depth(nodes));
  }
  return static_cast<std::int64_t>(most);
}

void DeterministicReducer::shard_done(const ExecSpace& space) {
  const std::int64_t shard = rank_ * each_ + added_++;
  // The way from the node down to this shard: its right halves end with it where it is their last one.
  std::vector<ShardNode> path{local_[node_]};
  while (!path.back().is_shard()) {
    const ShardNode node = path.back();
    path.push_back(shard < node.mid() ? node.left() : node.right());
  }
  // Whatever is complete with this shard: gradients_ holds the right half, the last one that waits is the left half.
  while (path.size() > 1 && path.back().lo > path[path.size() - 2].lo) {
    accumulate(space, partial_[waiting_.size() - 1].get(), gradients_);
    waiting_.pop_back();
    path.pop_back();
  }
  if (path.size() == 1) {
    copy(space, gradients_, sums_[node_++].get());
  } else {
    copy(space, gradients_, partial_[waiting_.size()].get());
    waiting_.push_back(path.back());
  }
}

void DeterministicReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (!schedule_.empty()) wait_for_kernels(space);  // one rank has nothing to send
  const Timer timer;
  assert(added_ == each_ && waiting_.empty());
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

/// These elements of the sums, of which each has as many as the gradients.
Tensor DeterministicReducer::sums_at(const Step::Part& part) const {
  const std::int64_t count = gradients_.count();
  return part_of(sums_[static_cast<std::size_t>(part.first / count)].get(), part.first % count, part.count);
}

std::span<const std::byte> DeterministicReducer::outgoing(const Step::Part& part) {
  const Tensor sums = sums_at(part);
  if constexpr (memory_is_separate) {
    copy_to_host(*space_, sums, outgoing_.data());
    return {outgoing_.data(), sums.bytes()};
  } else {
    space_->fence("lockstep::deterministic_reducer");
    return {static_cast<const std::byte*>(sums.data), sums.bytes()};
  }
}

std::span<std::byte> DeterministicReducer::incoming(const Step::Part& part) {
  const Tensor sums = sums_at(part);
  const bool in_place = !memory_is_separate && part.final;
  return {in_place ? static_cast<std::byte*>(sums.data) : incoming_.data(), sums.bytes()};
}

void DeterministicReducer::arrived(const Step::Part& part) {
  const Tensor sums = sums_at(part);
  if constexpr (!memory_is_separate) {
    if (!part.final) accumulate(*space_, {incoming_.data(), sums.dtype, sums.shape}, sums);
  } else if (part.final) {
    copy_from_host(*space_, incoming_.data(), sums);
  } else {
    const Tensor staged = part_of(gradients_, 0, part.count);  // its numbers are in the sums already
    copy_from_host(*space_, incoming_.data(), staged);
    accumulate(*space_, staged, sums);
  }
}

double DeterministicReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
