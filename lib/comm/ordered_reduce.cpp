// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/ordered_reduce.hpp"

#include <cassert>
#include <cstring>

#include "core/memory_plan.hpp"

namespace lockstep {
namespace {

/// Neighbouring ranks first, then neighbouring pairs, …: each combines arrays of ranks that follow each other, so that
/// order is kept. Then the same way back.
std::vector<Round> binomial_rounds(int rank, int size, std::int64_t count) {
  std::vector<Round> up, down;
  for (int distance = 1; distance < size; distance *= 2) {
    if (rank % (2 * distance) != 0) {
      up.push_back({{rank - distance, 0, count, false}, {}});
      down.push_back({{}, {rank - distance, 0, count, true}});
      break;
    }
    if (rank + distance >= size) continue;
    up.push_back({{}, {rank + distance, 0, count, false}});
    down.push_back({{rank + distance, 0, count, true}, {}});
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

}  // namespace

OrderedReduce::OrderedReduce(const Topology& topology, const ParallelConfig::Emulate& emulate, std::size_t bytes)
    : own_(bytes), incoming_(bytes), most_bytes_(align_up(bytes)) {
  if (topology.one_node()) memory_ = NodeMemory::make(topology.node, 2 * most_bytes_);
  if (memory_) return;
  link_ = emulate.present ? emulated_link(topology.all, {emulate.latency_us, emulate.bandwidth_gbps}, topology.node_of)
                          : mpi_link(topology.all);
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
    if (rounds_.empty() || bytes != static_cast<std::size_t>(rounds_[0].send.count + rounds_[0].receive.count))
      rounds_ = binomial_rounds(link_->rank(), link_->size(), static_cast<std::int64_t>(bytes));
    round_ = 0;
    begin_round();
  }
}

bool OrderedReduce::advance() {
  if (running_) running_ = !(memory_ ? advance_in_node() : advance_between());
  return !running_;
}

/// An array stays until its rank begins the next but one; by then all have finished this one, or the next could not
/// have been.
bool OrderedReduce::advance_in_node() {
  const int ranks = memory_->ranks().size();
  for (int rank = 0; rank < ranks; ++rank)
    if (memory_->flags(rank).stage[0].load(std::memory_order_acquire) < number_) return false;
  const auto array = [&](int rank) { return memory_->part(rank) + number_ % 2 * most_bytes_; };
  std::memcpy(own_.data(), array(0), bytes_);
  for (int rank = 1; rank < ranks; ++rank) combine_(own_.data(), array(rank));
  return true;
}

bool OrderedReduce::advance_between() {
  while (round_ < rounds_.size()) {
    if (!link_->sent() || !link_->received()) return false;
    const Round::Part& receive = rounds_[round_].receive;
    if (receive && !receive.final) combine_(own_.data(), incoming_.data());
    ++round_;
    begin_round();
  }
  return true;
}

void OrderedReduce::begin_round() {
  if (round_ == rounds_.size()) return;
  const Round& round = rounds_[round_];
  if (round.send) link_->send(round.send.peer, own_.data(), bytes_);
  if (round.receive) link_->receive(round.receive.peer, round.receive.final ? own_.data() : incoming_.data(), bytes_);
}

}  // namespace lockstep
