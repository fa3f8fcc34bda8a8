// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/ordered_reduce.hpp"

#include <cassert>
#include <cstring>
#include <utility>

#include "core/memory_plan.hpp"

namespace lockstep {

OrderedReduce::OrderedReduce(const Topology& topology, std::size_t bytes)
    : own_(bytes), incoming_(bytes), most_bytes_(align_up(bytes)) {
  if (topology.one_node()) memory_ = NodeMemory::make(topology.node, 2 * most_bytes_);
  if (!memory_) messages_.emplace(make_transport(topology.all));
}

void OrderedReduce::start(std::size_t bytes, Combine combine) {
  assert(!running_ && bytes <= own_.size());
  bytes_ = bytes;
  combine_ = std::move(combine);
  running_ = true;
  ++number_;
  if (memory_) {
    const int rank = memory_->ranks().rank();
    std::memcpy(memory_->part(rank) + number_ % 2 * most_bytes_, own_.data(), bytes_);
    memory_->flags(rank).stage[0].store(number_, std::memory_order_release);
  } else {
    if (std::exchange(scheduled_bytes_, bytes) != bytes)
      schedule_ = ordered_all_reduce(messages_->rank(), messages_->size(), static_cast<std::int64_t>(bytes));
    messages_->start(schedule_, *this);
  }
}

bool OrderedReduce::advance() {
  if (running_) running_ = !(memory_ ? advance_in_node() : messages_->advance());
  return !running_;
}

/// An array stays unchanged until its rank starts the operation after the next. By then all ranks have finished this
/// one, because otherwise the next one could not have finished.
bool OrderedReduce::advance_in_node() {
  const int ranks = memory_->ranks().size();
  for (int rank = 0; rank < ranks; ++rank)
    if (memory_->flags(rank).stage[0].load(std::memory_order_acquire) < number_) return false;
  const auto array = [&](int rank) { return memory_->part(rank) + number_ % 2 * most_bytes_; };
  std::memcpy(own_.data(), array(0), bytes_);
  for (int rank = 1; rank < ranks; ++rank) combine_(own_.data(), array(rank));
  return true;
}

std::span<const std::byte> OrderedReduce::outgoing(const CommRound::Part&) { return {own_.data(), bytes_}; }

std::span<std::byte> OrderedReduce::incoming(const CommRound::Part& part) {
  return {part.final ? own_.data() : incoming_.data(), bytes_};
}

void OrderedReduce::arrived(const CommRound::Part& part) {
  if (!part.final) combine_(own_.data(), incoming_.data());
}

}  // namespace lockstep
