// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/collective/executor.hpp"

namespace lockstep {

/// Each rank has a message for each other, of any length that both know. Nothing waits: who needs the messages calls
/// `advance` until it says that they are there.
class Exchange final : Payload {
 public:
  explicit Exchange(std::unique_ptr<Transport> transport);

  int rank() const { return executor_.rank(); }
  int size() const { return executor_.size(); }

  /// What goes to a rank in the exchanges that are begun from now on; it stays as it is until they are done.
  std::span<const std::byte>& to(int rank) { return to_[static_cast<std::size_t>(rank)]; }
  /// Where that of a rank goes.
  std::span<std::byte>& from(int rank) { return from_[static_cast<std::size_t>(rank)]; }
  /// Begins; the exchange before must be done.
  void start() { executor_.start(schedule_, *this); }
  /// Does what can be done now; whether all is there, and sent.
  bool advance() { return executor_.advance(); }

 private:
  std::span<const std::byte> outgoing(const Step::Part& part) override { return to(part.peer); }
  std::span<std::byte> incoming(const Step::Part& part) override { return from(part.peer); }
  void arrived(const Step::Part&) override {}

  Executor executor_;
  Schedule schedule_;
  std::vector<std::span<const std::byte>> to_;
  std::vector<std::span<std::byte>> from_;
};

}  // namespace lockstep
