// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/deterministic_reducer.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "base/timer.hpp"

namespace lockstep {
namespace {

/// Elements that go in one message.
constexpr std::int64_t piece = std::int64_t{1} << 20;

template <class C>
void accumulate(const ExecSpace& space, std::int64_t count, const C* from, C* to) {
  Kokkos::parallel_for(
      "lockstep::shard_tree::add", Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>(space, 0, count),
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

void wait_for(Transport& transport) {
  wait_until([&] { return transport.sent() && transport.received(); });
}

}  // namespace

DeterministicReducer::DeterministicReducer(const Communicator& ranks, std::int64_t shards, const Tensor& gradients)
    : ranks_(ranks),
      shards_(shards),
      each_(shards / ranks.size()),
      gradients_(gradients),
      transport_(make_transport(ranks)) {
  assert(shards % ranks.size() == 0);
  const std::int64_t first = ranks.rank() * each_;
  local_ = largest_within({0, shards}, first, first + each_);
  ranks.run_collectively([&] {
    for (std::size_t i = 0; i < local_.size(); ++i)
      sums_.emplace_back("lockstep::shard_sum", gradients.dtype, gradients.shape);
    for (std::size_t i = 0; i < most_depth(local_); ++i)
      partial_.emplace_back("lockstep::shard_part", gradients.dtype, gradients.shape);
    const auto bytes = static_cast<std::size_t>(std::min(piece, gradients.count())) * size_of(gradients.dtype);
    outgoing_.resize(bytes);
    incoming_.resize(bytes);
  });
}

std::vector<DeterministicReducer::Node> DeterministicReducer::largest_within(const Node& node, std::int64_t first,
                                                                             std::int64_t end) {
  if (node.hi <= first || node.lo >= end) return {};
  if (node.lo >= first && node.hi <= end) return {node};
  std::vector<Node> nodes = largest_within(node.left(), first, end);
  std::ranges::copy(largest_within(node.right(), first, end), std::back_inserter(nodes));
  return nodes;
}

std::size_t DeterministicReducer::most_depth(const std::vector<Node>& nodes) {
  std::size_t most = 0;
  for (const Node& node : nodes) most = std::max(most, node.depth());
  return most;
}

std::int64_t DeterministicReducer::buffers(std::int64_t shards, int ranks) {
  std::size_t most = 0;
  for (std::int64_t rank = 0, each = shards / ranks; rank < ranks; ++rank) {
    const std::vector<Node> nodes = largest_within({0, shards}, rank * each, (rank + 1) * each);
    most = std::max(most, nodes.size() + most_depth(nodes));
  }
  return static_cast<std::int64_t>(most);
}

void DeterministicReducer::shard_done(const ExecSpace& space) {
  const std::int64_t shard = ranks_.rank() * each_ + added_++;
  // The way from the node down to this shard: its right halves end with it where it is their last one.
  const Node top = local_[node_];
  std::vector<Node> path{top};
  while (!path.back().is_shard()) {
    const Node node = path.back();
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

void DeterministicReducer::finish(const ExecSpace& space) {
  const Timer timer;
  assert(added_ == each_ && waiting_.empty());
  if (const Tensor sum = sum_across(space, {0, shards_})) copy(space, sum, gradients_);
  ranks_.broadcast(space, gradients_);
  added_ = 0;
  node_ = 0;
  exposed_seconds_ += timer.seconds();
}

/// The node's sum, on the rank of its first shard; empty on all others.
Tensor DeterministicReducer::sum_across(const ExecSpace& space, const Node& node) {
  const int rank = ranks_.rank();
  if (is_local(node)) {
    const auto found = std::ranges::find(local_, node.lo, &Node::lo);
    return owner(node.lo) == rank ? sums_[static_cast<std::size_t>(found - local_.begin())].get() : Tensor{};
  }
  const Tensor left = sum_across(space, node.left()), right = sum_across(space, node.right());
  const int to = owner(node.lo), from = owner(node.mid());
  if (to == rank && from == rank) accumulate(space, right, left);
  else if (to == rank) receive_and_add(space, from, left);
  else if (from == rank) send(space, right, to);
  return left;
}

void DeterministicReducer::send(const ExecSpace& space, const Tensor& from, int peer) {
  for (std::int64_t first = 0; first < from.count(); first += piece) {
    const Tensor part = part_of(from, first, std::min(piece, from.count() - first));
    copy_to_host(space, part, outgoing_.data());
    transport_->send(peer, outgoing_.data(), part.bytes());
    wait_for(*transport_);
  }
}

void DeterministicReducer::receive_and_add(const ExecSpace& space, int peer, const Tensor& to) {
  for (std::int64_t first = 0; first < to.count(); first += piece) {
    const Tensor part = part_of(to, first, std::min(piece, to.count() - first));
    transport_->receive(peer, incoming_.data(), part.bytes());
    wait_for(*transport_);
    if constexpr (host_shares_memory) {
      accumulate(space, {incoming_.data(), part.dtype, part.shape}, part);
    } else {
      const Tensor arrived = part_of(gradients_, first, part.count());  // its numbers are in the sums already
      copy_from_host(space, incoming_.data(), arrived);
      accumulate(space, arrived, part);
    }
  }
}

double DeterministicReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
