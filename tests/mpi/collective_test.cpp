// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the reduce-scatter and the all-gather of every algorithm that has them.
#include <gtest/gtest.h>

#include "comm/collective/algorithm.hpp"
#include "comm/emulated_network.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// The numbers that fill a rank's buffer.
std::vector<double> numbers_of(int rank, std::int64_t count) {
  return test::filling(static_cast<std::uint64_t>(100 + rank), count);
}

std::vector<double> sum_of_all(int ranks, std::int64_t count) {
  std::vector<double> sum(static_cast<std::size_t>(count), 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto theirs = numbers_of(rank, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
  }
  return sum;
}

void run(Collective& collective, std::int64_t first, std::int64_t count) {
  collective.start(first, count);
  wait_until([&] { return collective.advance(); });
}

std::vector<std::uint8_t> of_rank(const Communicator& comm, const std::vector<std::uint8_t>& bytes, int rank) {
  std::string text(bytes.begin(), bytes.end());
  comm.broadcast(text, rank);
  return {text.begin(), text.end()};
}

/// A rank's buffer, and the operations on it.
struct CollectiveSetting {
  Communicator comm;
  std::vector<double> memory;  // holds floats, too
  test::HostNumbers own;
  ReduceBuffer buffer;

  CollectiveSetting(const Communicator& ranks, DType dtype, std::int64_t count)
      : comm(ranks),
        memory(static_cast<std::size_t>(std::max<std::int64_t>(count, 1))),
        own{memory.data(), dtype, static_cast<std::int64_t>(memory.size())},
        buffer{dtype, memory.data()} {
    test::set_values(own, numbers_of(comm.rank(), own.count));
  }
  std::vector<double> values() const { return test::values_of(own); }
};

class Operations : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  const Algorithm& algorithm = *find_algorithm(std::get<0>(GetParam()));
  const Communicator comm = std::get<1>(GetParam()) ? emulate_network(Communicator::world(), {1, 0, 2})
                                                    : Communicator::world();
};

constexpr std::int64_t counts[] = {0, 1, 2, 5, 64, 1003, 100003};

TEST_P(Operations, ReduceScatterLeavesASliceOfSums) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : counts) {
      CollectiveSetting setting(comm, dtype, count);
      const auto scatter = reduce_scatter(algorithm, make_transport(comm), setting.buffer);
      run(*scatter, 0, count);
      const std::vector<double> values = setting.values(), expected = sum_of_all(comm.size(), count);
      const ElementRange slice = slice_of_rank(count, comm.rank(), comm.size());
      for (std::int64_t i = slice.first; i < slice.end(); ++i)
        ASSERT_NEAR(values[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)],
                    (dtype == DType::f64 ? 1e-15 : 3e-7) * comm.size())
            << count << " elements, element " << i;
    }
}

TEST_P(Operations, AllGatherBringsWhatEachRankHas) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : counts) {
      CollectiveSetting setting(comm, dtype, count);
      std::vector<double> expected = setting.values();
      for (int rank = 0; rank < comm.size(); ++rank) {
        const ElementRange slice = slice_of_rank(count, rank, comm.size());
        const std::vector<double> theirs = numbers_of(rank, std::max<std::int64_t>(count, 1));
        std::copy(theirs.begin() + slice.first, theirs.begin() + slice.end(), expected.begin() + slice.first);
      }
      if (dtype == DType::f32)
        for (double& value : expected) value = static_cast<double>(static_cast<float>(value));
      const auto gather = all_gather(algorithm, make_transport(comm), setting.buffer);
      run(*gather, 0, count);
      ASSERT_EQ(setting.values(), expected) << count << " elements";
    }
}

/// A reduce-scatter and an all-gather make an all-reduce, also of a range, and with 16 bits on the wire.
TEST_P(Operations, TogetherAreAnAllReduce) {
  constexpr std::int64_t count = 5003, first = 1000, end = 4001;
  for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
    CollectiveSetting setting(comm, DType::f32, count);
    const std::vector<double> before = setting.values();
    const auto scatter = reduce_scatter(algorithm, make_transport(comm), setting.buffer, wire);
    const auto gather = all_gather(algorithm, make_transport(comm), setting.buffer, wire);
    run(*scatter, first, end - first);
    run(*gather, first, end - first);
    const std::vector<double> values = setting.values(), sum = sum_of_all(comm.size(), count);
    const double allowed = wire == DType::f32 ? 0 : test::rounding_error(wire) * comm.size() * comm.size();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i < first || i >= end) ASSERT_EQ(values[at], before[at]) << "outside of the range, element " << i;
      else ASSERT_NEAR(values[at], sum[at], allowed + 3e-7 * comm.size()) << "element " << i;
    }
    const std::vector<std::uint8_t> bytes = test::bytes_of(setting.own);
    const auto range = [&](const std::vector<std::uint8_t>& all) {
      return std::vector<std::uint8_t>(all.begin() + 4 * first, all.begin() + 4 * end);
    };
    EXPECT_EQ(range(bytes), range(of_rank(comm, bytes, 0))) << "other bits than on rank 0";
  }
}

TEST_P(Operations, RunAgainAndAgain) {
  CollectiveSetting setting(comm, DType::f64, 64);
  const auto sum = all_reduce(algorithm, make_transport(comm), setting.buffer);
  const auto gather = all_gather(algorithm, make_transport(comm), setting.buffer);
  for (int round = 0; round < 5; ++round) {
    test::set_values(setting.own, std::vector<double>(64, round + 1.0));
    run(*sum, 3, 50);
    run(*gather, 0, 64);
    EXPECT_EQ(setting.values()[20], comm.size() * (round + 1.0));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Operations,
                         testing::Combine(testing::Values("ring", "halving_doubling"), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "_emulated" : "");
                         });

TEST(Table, SaysWhoHasAnOperation) {
  double number = 1;
  const ReduceBuffer buffer{DType::f64, &number};
  try {
    reduce_scatter(*find_algorithm("tree"), make_transport(Communicator::world()), buffer);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "tree has no reduce-scatter by messages; use one of ring, halving_doubling");
  }
}

TEST(Table, HasEachNameOnce) {
  EXPECT_EQ(find_algorithm("auto"), nullptr);
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_EQ(find_algorithm(algorithm.name), &algorithm);
    EXPECT_FALSE(algorithm.help.empty());
    EXPECT_TRUE(algorithm.make || algorithm.all_reduce || algorithm.in_device_memory) << algorithm.name;
  }
}

}  // namespace
}  // namespace lockstep
