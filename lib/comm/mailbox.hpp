// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// Short texts from any rank to any other, for which neither waits. Those from one rank to another arrive in their
/// order. Each rank has one.
class Mailbox {
 public:
  struct Letter {
    int from = 0;
    std::string text;
  };

  /// Its messages do not meet others of these ranks. Collective.
  explicit Mailbox(const Communicator& ranks);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// What was sent has to be taken first: see `wait_until_sent`.
  ~Mailbox();

  void send(std::string text, int to);
  /// None: there is nothing at the moment.
  std::optional<Letter> take();
  /// Until all that this rank has sent has left it.
  void wait_until_sent();

 private:
  struct Sent;

  Communicator ranks_;
  std::deque<Letter> own_;                  ///< from this rank to itself
  std::deque<std::unique_ptr<Sent>> sent_;  ///< and still on its way
};

}  // namespace lockstep
