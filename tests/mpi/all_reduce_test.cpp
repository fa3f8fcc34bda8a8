// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/make_all_reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/duration.hpp"
#include "comm/emulated_network.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Way {
  const char* name;
  const char* algorithm;
  std::int64_t ranks_per_node = 0;  ///< of the emulated network; 0: no network is emulated
  std::optional<std::int64_t> leaders = std::nullopt;
  const char* between = "auto";

  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
  SumOptions options(DType wire) const {
    return {.all_reduce = find_algorithm(algorithm),
            .wire = wire,
            .between_nodes = find_algorithm(between),
            .leaders = leaders};
  }
  Communicator ranks() const {
    const Communicator world = Communicator::world();
    return ranks_per_node == 0 ? world : emulate_network(world, {1, 0, ranks_per_node});
  }
};

constexpr Way ways[] = {
    {"mpi", "mpi"},
    {"ring", "ring"},
    {"halving_doubling", "halving_doubling"},
    {"tree", "tree"},
    {"node", "hierarchical"},
    {"nodes_of_1", "hierarchical", 1},
    {"nodes_of_2", "hierarchical", 2},
    {"nodes_of_2_one_leader", "hierarchical", 2, 1, "tree"},
    {"nodes_of_3", "hierarchical", 3, 2, "halving_doubling"},
    {"nodes_of_5_two_leaders", "hierarchical", 5, 2, "ring"},
    {"emulated_ring", "ring", 1},
};

/// The ranks, the numbers of this rank, and the collective sum of one way.
struct Setting {
  Topology topology;
  std::optional<NodeMemory> memory;
  std::vector<double> own;  // the numbers, unless they are in the node's memory
  ReduceBuffer buffer;
  std::unique_ptr<Collective> sum;

  Setting(const Way& way, DType dtype, std::int64_t count, DType wire)
      : topology(way.ranks()), own(static_cast<std::size_t>(count)) {
    const SumOptions options = way.options(wire);
    if (options.all_reduce->in_node_memory)
      memory = NodeMemory::make(topology.node, static_cast<std::size_t>(count) * size_of(dtype));
    buffer = {dtype, memory ? static_cast<void*>(memory->part(topology.node.rank())) : own.data()};
    sum = make_all_reduce(options, {}, topology, memory, buffer);
  }

  test::HostNumbers numbers(std::int64_t count) const { return {buffer.data, buffer.dtype, count}; }
  void run(std::int64_t first, std::int64_t count) {
    sum->start(first, count);
    wait_until([&] { return sum->advance(); });
  }
};

std::uint64_t tag_of(int rank, int round) { return static_cast<std::uint64_t>(100 * round + rank + 1); }

std::vector<double> sum_of_all(int ranks, int round, std::int64_t count) {
  std::vector<double> sum(static_cast<std::size_t>(count), 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto theirs = test::filling(tag_of(rank, round), count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
  }
  return sum;
}

void expect_the_same_everywhere(const Communicator& comm, const test::HostNumbers& numbers) {
  const auto mine = test::bytes_of(numbers);
  std::string first(mine.begin(), mine.end());
  comm.broadcast(first);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), first.begin(), first.end(), [](std::uint8_t a, char b) {
    return a == static_cast<std::uint8_t>(b);
  })) << "other bits than on rank 0";
}

class Sums : public testing::TestWithParam<Way> {};

TEST_P(Sums, OfWhateverSize) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {0, 1, 5, 1003, 100003}) {
      Setting setting(GetParam(), dtype, count, DType::f32);
      const Communicator& comm = setting.topology.all;
      for (int round = 0; round < 3; ++round) {
        test::set_values(setting.numbers(count), test::filling(tag_of(comm.rank(), round), count));
        setting.run(0, count);
        const double error = test::largest_difference(test::values_of(setting.numbers(count)),
                                                      sum_of_all(comm.size(), round, count));
        ASSERT_LT(error, dtype == DType::f64 ? 1e-15 * comm.size() : 3e-7 * comm.size())
            << count << " elements, round " << round;
        expect_the_same_everywhere(comm, setting.numbers(count));
      }
    }
}

TEST_P(Sums, OfStretches) {
  constexpr std::int64_t count = 5003;
  Setting setting(GetParam(), DType::f64, count, DType::f32);
  const Communicator& comm = setting.topology.all;
  const auto before = test::filling(tag_of(comm.rank(), 0), count);
  test::set_values(setting.numbers(count), before);
  setting.run(17, 3);
  setting.run(1000, 3001);
  auto expected = before;
  const auto sum = sum_of_all(comm.size(), 0, count);
  std::copy_n(sum.begin() + 17, 3, expected.begin() + 17);
  std::copy_n(sum.begin() + 1000, 3001, expected.begin() + 1000);
  EXPECT_LT(test::largest_difference(test::values_of(setting.numbers(count)), expected), 1e-14);
}

TEST_P(Sums, WithSixteenBitsOnTheWire) {
  if (find_algorithm(GetParam().algorithm)->by_library) GTEST_SKIP() << "MPI adds in the type that travels";
  constexpr std::int64_t count = 4001;
  for (const DType wire : {DType::bf16, DType::f16}) {
    Setting setting(GetParam(), DType::f32, count, wire);
    const Communicator& comm = setting.topology.all;
    test::set_values(setting.numbers(count), test::filling(tag_of(comm.rank(), 0), count));
    setting.run(0, count);
    // Each of up to `size` messages rounds a partial sum of at most `size`.
    const double allowed = test::rounding_error(wire) * comm.size() * comm.size();
    EXPECT_LT(test::largest_difference(test::values_of(setting.numbers(count)), sum_of_all(comm.size(), 0, count)),
              allowed + 1e-6);
    expect_the_same_everywhere(comm, setting.numbers(count));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Sums, testing::ValuesIn(ways), [](const auto& info) { return info.param.name; });

TEST(EmulatedNetwork, TakesItsTime) {
  const Communicator comm = Communicator::world();
  if (comm.size() < 2) GTEST_SKIP() << "needs two ranks";
  constexpr std::int64_t count = 250'000;  // 1 MB
  const Topology topology(emulate_network(comm, {2000, 0.1, 1}));
  std::vector<float> numbers(count, 1.0F);
  const auto sum = make_all_reduce({.all_reduce = find_algorithm("ring")}, {}, topology, std::nullopt,
                                   {DType::f32, numbers.data()});
  const Timer timer;  // the sum starts after the barrier, once all ranks are here
  comm.barrier();
  sum->start(0, count);
  wait_until([&] { return sum->advance(); });
  // The ring sends 2 (P − 1) messages one after the other, of 1 MB / P each.
  const double messages = 2.0 * (comm.size() - 1);
  EXPECT_GE(timer.seconds(), messages * (2e-3 + 1e6 / comm.size() / 1e8));
  EXPECT_EQ(numbers[12345], static_cast<float>(comm.size()));
}

TEST(TopologyTest, KnowsEmulatedNodes) {
  const Communicator comm = Communicator::world();
  const Topology topology(emulate_network(comm, {.ranks_per_node = 2}));
  EXPECT_EQ(topology.nodes, (comm.size() + 1) / 2);
  EXPECT_EQ(topology.smallest, comm.size() % 2 == 0 ? 2 : 1);
  EXPECT_EQ(topology.node.rank(), comm.rank() % 2);
  for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(topology.node_of[static_cast<std::size_t>(rank)], rank / 2);
  EXPECT_TRUE(Topology(comm).one_node());
}

}  // namespace
}  // namespace lockstep
