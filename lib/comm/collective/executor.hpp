// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "comm/transport.hpp"

namespace lockstep {

/// Meaning of a schedule's elements: how they become messages, and what is done with those received.
class Payload {
 public:
  virtual ~Payload() = default;

  /// Returns the message for the elements to send; it must stay unchanged until it is sent.
  virtual std::span<const std::byte> outgoing(const CommRound::Part& part) = 0;
  /// Returns the destination of the message with the elements to receive.
  virtual std::span<std::byte> incoming(const CommRound::Part& part) = 0;
  /// Called when a part has been received.
  virtual void arrived(const CommRound::Part& part) = 0;
};

/// Bytes that all executors of this process have sent so far, plus those of `count_bytes_sent`.
std::int64_t scheduled_bytes_sent();
/// Adds the bytes of messages that are sent without a schedule.
void count_bytes_sent(std::size_t bytes);

/// Runs schedules over a transport, one at a time. Nothing waits: callers call `advance` until it returns true.
class Executor {
 public:
  explicit Executor(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  /// Starts a schedule; the previous one must be done. `schedule` and `payload` must outlive the run.
  void start(const CommSchedule& schedule, Payload& payload);
  /// Makes what progress is possible without waiting. Returns true if the schedule is done on this rank.
  bool advance();
  /// Number of steps done of the running schedule, by which a waiting caller sees progress.
  std::size_t steps_done() const { return step_; }

 private:
  void begin_step();

  std::unique_ptr<Transport> transport_;
  const CommSchedule* schedule_ = nullptr;  ///< null: nothing is running
  Payload* payload_ = nullptr;
  std::size_t step_ = 0;
};

/// An all-to-all exchange: one message from each rank to each other rank, of any length known to both. Nothing waits:
/// callers call `advance` until it returns true.
class Exchange final : Payload {
 public:
  explicit Exchange(std::unique_ptr<Transport> transport);

  int rank() const { return executor_.rank(); }
  int size() const { return executor_.size(); }

  /// Message to a rank, for exchanges started from now on; it must stay unchanged until they are done.
  std::span<const std::byte>& to(int rank) { return to_[static_cast<std::size_t>(rank)]; }
  /// Destination of the message from a rank.
  std::span<std::byte>& from(int rank) { return from_[static_cast<std::size_t>(rank)]; }
  /// Starts an exchange; the previous one must be done.
  void start() { executor_.start(schedule_, *this); }
  /// Makes what progress is possible without waiting. Returns true if all messages are received and sent.
  bool advance() { return executor_.advance(); }

 private:
  std::span<const std::byte> outgoing(const CommRound::Part& part) override { return to(part.peer); }
  std::span<std::byte> incoming(const CommRound::Part& part) override { return from(part.peer); }
  void arrived(const CommRound::Part&) override {}

  Executor executor_;
  CommSchedule schedule_;
  std::vector<std::span<const std::byte>> to_;
  std::vector<std::span<std::byte>> from_;
};

}  // namespace lockstep
