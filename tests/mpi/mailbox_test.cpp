// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/mailbox.hpp"

#include <gtest/gtest.h>

#include <map>

#include "comm/spin_backoff.hpp"

namespace lockstep {
namespace {

/// Each rank sends to every rank, itself included, before it receives. Long letters exceed what MPI sends eagerly.
TEST(Mailbox, LettersArriveWholeAndInTheirOrder) {
  const Communicator comm = Communicator::world();
  Mailbox mailbox(comm);
  constexpr int letters = 20;
  const auto text = [&](int from, int to, int i) {
    return std::to_string(1000 * from + to) + ":" + std::string(i == 7 ? 200000 : static_cast<std::size_t>(i), 'x');
  };
  for (int i = 0; i < letters; ++i)
    for (int to = 0; to < comm.size(); ++to) mailbox.send(text(comm.rank(), to, i), to);
  std::map<int, int> taken;
  wait_until([&, all = 0]() mutable {
    while (const auto letter = mailbox.take()) {
      EXPECT_EQ(letter->text, text(letter->from, comm.rank(), taken[letter->from]));
      ++taken[letter->from];
      ++all;
    }
    return all == letters * comm.size();
  });
  mailbox.wait_until_sent();
  comm.barrier();
  EXPECT_FALSE(mailbox.take());
}

TEST(Mailbox, OneAloneWritesToItself) {
  Mailbox mailbox(Communicator::alone());
  EXPECT_FALSE(mailbox.take());
  mailbox.send("a", 0);
  mailbox.send("b", 0);
  EXPECT_EQ(mailbox.take()->text, "a");
  EXPECT_EQ(mailbox.take()->text, "b");
  EXPECT_FALSE(mailbox.take());
}

}  // namespace
}  // namespace lockstep
