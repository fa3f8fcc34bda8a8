// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/collective/algorithm.hpp"
#include "comm/collective/shard_tree.hpp"

namespace lockstep {
namespace {

/// Runs the schedules of all ranks in one process. A rank goes on as soon as its messages are done, and a message is
/// done when both sides have begun it: schedules that end here need no buffering by the MPI library.
class Network {
 public:
  Network(Scheduler make, int size, std::int64_t count) {
    for (int rank = 0; rank < size; ++rank) {
      // Whole numbers, so that sums are exact, and different ones, so that a number added twice shows.
      std::vector<double> numbers;
      for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>((rank + 1) * 1000 + i));
      add(make(rank, size, count), std::move(numbers));
    }
  }
  /// A network without ranks: see add.
  Network() = default;

  void add(CommSchedule schedule, std::vector<double> numbers) {
    ranks_.push_back({std::move(schedule), std::move(numbers)});
  }

  /// Runs all schedules; true if every rank reaches the end of its own.
  bool run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (go_on(rank)) moved = true;
    }
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.next == rank.schedule.size(); });
  }

  const std::vector<double>& numbers(int rank) const { return ranks_[static_cast<std::size_t>(rank)].numbers; }

  /// Number of elements that the busiest rank sends.
  std::int64_t most_sent() const {
    std::int64_t most = 0;
    for (const Rank& rank : ranks_) {
      std::int64_t sent = 0;
      for (const CommRound& step : rank.schedule) sent += step.send.count;
      most = std::max(most, sent);
    }
    return most;
  }
  std::size_t most_steps() const {
    std::size_t most = 0;
    for (const Rank& rank : ranks_) most = std::max(most, rank.schedule.size());
    return most;
  }

 private:
  struct Rank {
    CommSchedule schedule;
    std::vector<double> numbers;
    std::size_t next = 0;
    bool sent = true, received = true;
  };

  void begin(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.schedule.size()) return;
    mine.sent = !mine.schedule[mine.next].send;
    mine.received = !mine.schedule[mine.next].receive;
  }

  /// Delivers the message that `rank` sends, if its receiver waits for it.
  void deliver(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.schedule.size() || mine.sent) return;
    const CommRound::Part& send = mine.schedule[mine.next].send;
    Rank& peer = ranks_[static_cast<std::size_t>(send.peer)];
    if (peer.next == peer.schedule.size() || peer.received) return;
    const CommRound::Part& receive = peer.schedule[peer.next].receive;
    if (receive.peer != static_cast<int>(rank)) return;
    EXPECT_EQ(receive.count, send.count);
    EXPECT_EQ(receive.final, send.final);
    for (std::int64_t i = 0; i < send.count; ++i) {
      double& place = peer.numbers[static_cast<std::size_t>(receive.first + i)];
      place = (send.final ? 0 : place) + mine.numbers[static_cast<std::size_t>(send.first + i)];
    }
    mine.sent = peer.received = true;
  }

  bool go_on(std::size_t rank) {
    Rank& mine = ranks_[rank];
    if (mine.next == mine.schedule.size()) return false;
    deliver(rank);
    if (const CommRound::Part& receive = mine.schedule[mine.next].receive; receive && !mine.received)
      deliver(static_cast<std::size_t>(receive.peer));
    if (!mine.sent || !mine.received) return false;
    ++mine.next;
    begin(rank);
    return true;
  }

  std::vector<Rank> ranks_;
};

struct Named {
  std::string name;
  Scheduler make;

  friend void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }
};

/// The algorithms of the table that have the operation.
std::vector<Named> with(Scheduler Algorithm::*operation) {
  std::vector<Named> found;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.*operation) found.push_back({std::string(algorithm.name), algorithm.*operation});
  return found;
}
const auto name_of = [](const auto& info) { return info.param.name; };

/// Calls check(ranks, elements) also for no elements, fewer than ranks, odd numbers, and more than a tree's segment.
template <class Check>
void for_all_sizes(Check check) {
  for (int size = 1; size <= 33; ++size)
    for (const std::int64_t count : {0, 1, 2, 31, 64, 1000, 70001})
      if (count <= 1000 || size <= 9) check(size, count);
}

double sum_at(int size, std::int64_t i) { return 500.0 * size * (size + 1) + static_cast<double>(size * i); }

class AllReduceSchedules : public testing::TestWithParam<Named> {};

TEST_P(AllReduceSchedules, SumOnEveryRank) {
  for_all_sizes([&](int size, std::int64_t count) {
    Network network(GetParam().make, size, count);
    ASSERT_TRUE(network.run()) << size << " ranks, " << count << " elements: some wait for ever";
    std::vector<double> expected;
    for (std::int64_t i = 0; i < count; ++i) expected.push_back(sum_at(size, i));
    for (int rank = 0; rank < size; ++rank)
      ASSERT_EQ(network.numbers(rank), expected) << size << " ranks, " << count << " elements, rank " << rank;
  });
}

INSTANTIATE_TEST_SUITE_P(Table, AllReduceSchedules, testing::ValuesIn(with(&Algorithm::all_reduce)), name_of);
INSTANTIATE_TEST_SUITE_P(Others, AllReduceSchedules, testing::Values(Named{"ordered", ordered_all_reduce}), name_of);

class ReduceScatterSchedules : public testing::TestWithParam<Named> {};

TEST_P(ReduceScatterSchedules, SumASliceOnEachRank) {
  for_all_sizes([&](int size, std::int64_t count) {
    Network network(GetParam().make, size, count);
    ASSERT_TRUE(network.run()) << size << " ranks, " << count << " elements: some wait for ever";
    for (int rank = 0; rank < size; ++rank) {
      const ElementRange slice = slice_of_rank(count, rank, size);
      for (std::int64_t i = slice.first; i < slice.end(); ++i)
        ASSERT_EQ(network.numbers(rank)[static_cast<std::size_t>(i)], sum_at(size, i))
            << size << " ranks, " << count << " elements, rank " << rank << ", element " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Table, ReduceScatterSchedules, testing::ValuesIn(with(&Algorithm::reduce_scatter)), name_of);

class AllGatherSchedules : public testing::TestWithParam<Named> {};

TEST_P(AllGatherSchedules, BringEverySliceToEveryRank) {
  for_all_sizes([&](int size, std::int64_t count) {
    Network network(GetParam().make, size, count);
    ASSERT_TRUE(network.run()) << size << " ranks, " << count << " elements: some wait for ever";
    std::vector<double> expected;
    for (int rank = 0; rank < size; ++rank) {
      const ElementRange slice = slice_of_rank(count, rank, size);
      for (std::int64_t i = slice.first; i < slice.end(); ++i)
        expected.push_back(static_cast<double>((rank + 1) * 1000 + i));
    }
    for (int rank = 0; rank < size; ++rank)
      ASSERT_EQ(network.numbers(rank), expected) << size << " ranks, " << count << " elements, rank " << rank;
  });
}

INSTANTIATE_TEST_SUITE_P(Table, AllGatherSchedules, testing::ValuesIn(with(&Algorithm::all_gather)), name_of);

TEST(Schedules, BroadcastFromRankZero) {
  for_all_sizes([&](int size, std::int64_t count) {
    Network network(tree_broadcast, size, count);
    ASSERT_TRUE(network.run()) << size << " ranks, " << count << " elements: some wait for ever";
    const std::vector<double> expected = network.numbers(0);
    for (int rank = 0; rank < size; ++rank)
      ASSERT_EQ(network.numbers(rank), expected) << size << " ranks, " << count << " elements, rank " << rank;
  });
}

/// The sum of a node's shards in the order of the tree, as one process computes it.
double tree_sum(const ShardNode& node, const std::vector<double>& shards) {
  if (node.is_shard()) return shards[static_cast<std::size_t>(node.lo)];
  return tree_sum(node.left(), shards) + tree_sum(node.right(), shards);
}

TEST(Schedules, AddShardsInTheOrderOfTheirTree) {
  for (const std::int64_t count : {0, 1, 5}) {
    for (int shards = 1; shards <= 36; ++shards) {
      // Fractions, so that another order of additions would give other bits.
      std::vector<double> numbers;
      for (int shard = 0; shard < shards; ++shard) numbers.push_back(1.0 / (3 + 7 * shard));
      for (int size = 1; size <= shards; ++size) {
        // Equal runs where the ranks divide the shards; else one shard each, and all the others for one rank.
        ShardRuns runs = equal_runs(size, shards);
        if (shards % size != 0) {
          for (int rank = 0; rank <= size; ++rank) runs[rank] = rank <= shards % size ? rank : rank + shards - size;
        }
        Network network;
        for (int rank = 0; rank < size; ++rank) {
          std::vector<double> slots;
          for (const ShardNode& node : shard_nodes(rank, runs))
            slots.insert(slots.end(), static_cast<std::size_t>(count), tree_sum(node, numbers));
          network.add(shard_tree(rank, runs, count), std::move(slots));
        }
        ASSERT_TRUE(network.run()) << shards << " shards on " << size << " ranks: some wait for ever";
        for (int rank = 0; rank < size; ++rank)
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(network.numbers(rank)[static_cast<std::size_t>(i)], tree_sum({0, shards}, numbers))
                << shards << " shards on " << size << " ranks, rank " << rank;
      }
    }
  }
}

TEST(Schedules, NeedBuffersForTheNodesOfARunAndForWhatWaitsInThem) {
  EXPECT_EQ(shard_buffers(8, 0, 8), 3) << "halves, quarters and eighths that wait";
  EXPECT_EQ(shard_buffers(8, 1, 7), 4) << "1, 2 to 3, 4 to 5 and 6";
  EXPECT_EQ(shard_buffers(8, 5, 6), 1);
  EXPECT_EQ(shard_buffers(1, 0, 1), 1);
  EXPECT_EQ(most_shard_buffers(8, 8), 4);
  EXPECT_EQ(most_shard_buffers(8, 1), 1);
}

/// An all-reduce that is composed of a reduce-scatter and an all-gather costs as much as both together.
TEST(Schedules, CostWhatTheLiteratureSays) {
  constexpr std::int64_t count = 24 * array_block;
  const Network ring(ring_all_reduce, 6, count), halving(halving_doubling_all_reduce, 8, count);
  EXPECT_EQ(ring.most_steps(), 10u);
  EXPECT_EQ(ring.most_sent(), 2 * 5 * count / 6);
  EXPECT_EQ(halving.most_steps(), 6u);
  EXPECT_EQ(halving.most_sent(), 2 * 7 * count / 8);
  for (const Scheduler half : {ring_reduce_scatter, ring_all_gather}) {
    const Network network(half, 6, count);
    EXPECT_EQ(network.most_steps(), 5u);
    EXPECT_EQ(network.most_sent(), 5 * count / 6);
  }
  for (const Scheduler half : {halving_reduce_scatter, doubling_all_gather}) {
    const Network network(half, 8, count);
    EXPECT_EQ(network.most_steps(), 3u);
    EXPECT_EQ(network.most_sent(), 7 * count / 8);
  }
}

/// Results depend on the order in which an all-reduce adds elements up: that order must not change.
TEST(Schedules, KeepTheOrderOfSums) {
  // With 3 blocks on 3 ranks, the sum of block i begins on rank i + 1, goes round the ring, and is complete on rank i.
  for (int rank = 0; rank < 3; ++rank) {
    const CommSchedule steps = ring_all_reduce(rank, 3, 3 * array_block);
    ASSERT_EQ(steps.size(), 4u);
    EXPECT_EQ(steps[0].send.first, (rank + 2) % 3 * array_block);
    EXPECT_EQ(steps[0].send.peer, (rank + 1) % 3);
    EXPECT_FALSE(steps[0].send.final);
    EXPECT_EQ(steps[2].send.first, rank * array_block);
    EXPECT_TRUE(steps[2].send.final);
  }
  // With 3 elements on 8 ranks, repeated halving leaves the first element to rank 3 (slice_of: to rank 2).
  const CommSchedule steps = halving_doubling_all_reduce(3, 8, 3);
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[3].send.first, 0);
  EXPECT_EQ(steps[3].send.count, 1);
}

}  // namespace
}  // namespace lockstep
