// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/collective/executor.hpp"

namespace lockstep {

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
