// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// Short texts from any rank to any other, sent and received without waiting. Texts from one rank to another arrive in
/// order. Each rank has one mailbox.
class Mailbox {
 public:
  struct Letter {
    int from = 0;
    std::string text;
  };

  /// The mailbox's messages are separate from others of these ranks. Collective.
  explicit Mailbox(const Communicator& ranks);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// All sent texts must have left before: see `wait_until_sent`.
  ~Mailbox();

  void send(std::string text, int to);
  /// Returns the next text received; empty if there is none at the moment.
  std::optional<Letter> take();
  /// Waits until all texts sent by this rank have left.
  void wait_until_sent();

 private:
  struct Sent;

  Communicator ranks_;
  std::deque<Letter> own_;                  ///< texts from this rank to itself
  std::deque<std::unique_ptr<Sent>> sent_;  ///< texts being sent
};

}  // namespace lockstep
