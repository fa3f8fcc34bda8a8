// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/executor.hpp"

#include <atomic>
#include <cassert>

namespace lockstep {
namespace {

std::atomic<std::int64_t> bytes_sent = 0;

}  // namespace

std::int64_t scheduled_bytes_sent() { return bytes_sent.load(std::memory_order_relaxed); }

void count_bytes_sent(std::size_t bytes) {
  bytes_sent.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

void Executor::start(const CommSchedule& schedule, Payload& payload) {
  assert(!schedule_);
  schedule_ = &schedule;
  payload_ = &payload;
  step_ = 0;
  begin_step();
}

bool Executor::advance() {
  while (schedule_) {
    if (!transport_->received() || !transport_->sent()) return false;
    if (const CommRound::Part& part = (*schedule_)[step_].receive) payload_->arrived(part);
    ++step_;
    begin_step();
  }
  return true;
}

void Executor::begin_step() {
  if (step_ == schedule_->size()) {
    schedule_ = nullptr;
    return;
  }
  const CommRound& step = (*schedule_)[step_];
  if (step.receive) {
    const std::span<std::byte> message = payload_->incoming(step.receive);
    transport_->receive(step.receive.peer, message.data(), message.size());
  }
  if (step.send) {
    const std::span<const std::byte> message = payload_->outgoing(step.send);
    transport_->send(step.send.peer, message.data(), message.size());
    count_bytes_sent(message.size());
  }
}

Exchange::Exchange(std::unique_ptr<Transport> transport)
    : executor_(std::move(transport)),
      schedule_(pairwise_exchange(executor_.rank(), executor_.size())),
      to_(static_cast<std::size_t>(executor_.size())),
      from_(static_cast<std::size_t>(executor_.size())) {}

}  // namespace lockstep
