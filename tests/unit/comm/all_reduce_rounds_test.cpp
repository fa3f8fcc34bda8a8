// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/all_reduce_rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

using MakeRounds = decltype(&ring_rounds);

/// All ranks of one process, each going on as soon as its messages are done. A message is done when both sides have
/// begun it: what works here works whatever an MPI library holds back.
class Network {
 public:
  Network(MakeRounds make, int size, std::int64_t count) : ranks_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      Rank& mine = ranks_[static_cast<std::size_t>(rank)];
      mine.rounds = make(rank, size, count);
      // Whole numbers, so that sums are exact; the same one is never added twice without being noticed.
      for (std::int64_t i = 0; i < count; ++i) mine.numbers.push_back((rank + 1) * 1000 + i);
    }
  }

  /// Whether all come to their end.
  bool run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (go_on(rank)) moved = true;
    }
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.next == rank.rounds.size(); });
  }

  const std::vector<std::int64_t>& numbers(int rank) const { return ranks_[static_cast<std::size_t>(rank)].numbers; }

  /// Elements that the busiest rank sends.
  std::int64_t most_sent() const {
    std::int64_t most = 0;
    for (const Rank& rank : ranks_) {
      std::int64_t sent = 0;
      for (const Round& round : rank.rounds) sent += round.send.count;
      most = std::max(most, sent);
    }
    return most;
  }
  std::size_t most_rounds() const {
    std::size_t most = 0;
    for (const Rank& rank : ranks_) most = std::max(most, rank.rounds.size());
    return most;
  }

 private:
  struct Rank {
    std::vector<Round> rounds;
    std::vector<std::int64_t> numbers;
    std::size_t next = 0;
    bool sent = true, received = true;
  };

  void begin(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.rounds.size()) return;
    mine.sent = !mine.rounds[mine.next].send;
    mine.received = !mine.rounds[mine.next].receive;
  }

  /// Hands this rank's message over, where its receiver waits for it.
  void deliver(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.rounds.size() || mine.sent) return;
    const Round::Part& send = mine.rounds[mine.next].send;
    Rank& peer = ranks_[static_cast<std::size_t>(send.peer)];
    if (peer.next == peer.rounds.size() || peer.received) return;
    const Round::Part& receive = peer.rounds[peer.next].receive;
    if (receive.peer != static_cast<int>(rank)) return;
    EXPECT_EQ(receive.first, send.first);
    EXPECT_EQ(receive.count, send.count);
    EXPECT_EQ(receive.final, send.final);
    for (std::int64_t i = send.first; i < send.first + send.count; ++i) {
      std::int64_t& place = peer.numbers[static_cast<std::size_t>(i)];
      place = (send.final ? 0 : place) + mine.numbers[static_cast<std::size_t>(i)];
    }
    mine.sent = peer.received = true;
  }

  bool go_on(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.rounds.size()) return false;
    deliver(rank);
    if (const Round::Part& receive = mine.rounds[mine.next].receive; receive && !mine.received)
      deliver(static_cast<std::size_t>(receive.peer));
    if (!mine.sent || !mine.received) return false;
    ++mine.next;
    begin(rank);
    return true;
  }

  std::vector<Rank> ranks_;
};

class Rounds : public testing::TestWithParam<MakeRounds> {};

TEST_P(Rounds, SumOnEveryRank) {
  for (int size = 1; size <= 33; ++size)
    for (const std::int64_t count : {1, 2, 31, 64, 1000, 70001}) {
      if (count > 1000 && size > 9) continue;
      Network network(GetParam(), size, count);
      ASSERT_TRUE(network.run()) << size << " ranks, " << count << " elements: some wait for ever";
      std::vector<std::int64_t> expected(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i)
        expected[static_cast<std::size_t>(i)] = 1000 * size * (size + 1) / 2 + size * i;
      for (int rank = 0; rank < size; ++rank)
        ASSERT_EQ(network.numbers(rank), expected) << size << " ranks, " << count << " elements, rank " << rank;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Rounds, testing::Values(ring_rounds, halving_doubling_rounds, tree_rounds));

TEST(RoundCosts, AreThoseOfTheLiterature) {
  constexpr std::int64_t count = 48 * 1024;
  const Network ring(ring_rounds, 6, count), halving(halving_doubling_rounds, 8, count);
  EXPECT_EQ(ring.most_rounds(), 10u);
  EXPECT_EQ(ring.most_sent(), 2 * 5 * count / 6);
  EXPECT_EQ(halving.most_rounds(), 6u);
  EXPECT_EQ(halving.most_sent(), 2 * 7 * count / 8);
}

}  // namespace
}  // namespace lockstep
