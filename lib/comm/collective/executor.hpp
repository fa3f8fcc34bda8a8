// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/collective/schedule.hpp"
#include "comm/transport.hpp"

namespace lockstep {

/// What the elements of a schedule are: how they become messages, and what is done with those that arrive.
class Payload {
 public:
  virtual ~Payload() = default;

  /// The message of elements that are sent; it stays as it is until it is sent.
  virtual std::span<const std::byte> outgoing(const Step::Part& part) = 0;
  /// Where the message of elements that are received goes.
  virtual std::span<std::byte> incoming(const Step::Part& part) = 0;
  /// A part has been received.
  virtual void arrived(const Step::Part& part) = 0;
};

/// Bytes that this process has sent in schedules since its start, by any executor.
std::int64_t scheduled_bytes_sent();
/// So many more, in messages of steps that nothing has scheduled.
void count_bytes_sent(std::size_t bytes);

/// Runs schedules over a transport, one at a time. Nothing waits: who needs the end calls `advance` until it says so.
class Executor {
 public:
  explicit Executor(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  /// Begins a schedule; the one before must be done. Both stay until this one is.
  void start(const Schedule& schedule, Payload& payload);
  /// Does what can be done now; whether the schedule is done on this rank.
  bool advance();
  /// Steps done of the running schedule: who waits sees by it that something moves.
  std::size_t steps_done() const { return step_; }

 private:
  void begin_step();

  std::unique_ptr<Transport> transport_;
  const Schedule* schedule_ = nullptr;  ///< none: nothing is under way
  Payload* payload_ = nullptr;
  std::size_t step_ = 0;
};

}  // namespace lockstep
