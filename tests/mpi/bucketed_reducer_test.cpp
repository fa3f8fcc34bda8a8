// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/bucketed_reducer.hpp"

#include <gtest/gtest.h>

#include <ranges>

#include "core/random.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using Overlap = GradientSumConfig::Overlap;

class SumsInBuckets : public testing::TestWithParam<std::tuple<Overlap, const char*, DType>> {};

TEST_P(SumsInBuckets, WhateverTheBuckets) {
  const auto& [overlap, all_reduce, dtype] = GetParam();
  const Topology topology(Communicator::world());
  const Communicator& comm = topology.all;
  for (const std::int64_t count : {1, 250, 251, 5003})
    for (const double bucket_mb : {0.001, 0.00137, 0.02, 25.0}) {
      ParallelConfig config;
      config.sums.bucket_mb = bucket_mb;
      config.sums.overlap = overlap;
      config.sums.all_reduce = find_algorithm(all_reduce);
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
      const auto memory = gradient_memory(config, topology.all, topology.node, bytes);
      const OwnedTensor own("gradients", dtype, {count});
      Tensor gradients = own.get();
      if (memory && !memory_is_separate) gradients.data = memory->part(topology.node.rank());
      BucketedReducer reducer(config, {}, ShardGroups(config, topology), memory, gradients,
                              {{{0, count}}, count, bucket_mb, size_of(dtype)});
      const ExecSpace space;
      // `auto` needs fewer steps than these to choose.
      for (std::uint64_t step = 0; step < (overlap == Overlap::automatic ? 18 : 4); ++step) {
        test::set_values(gradients, test::filling(10 * step + static_cast<std::uint64_t>(comm.rank()), count));
        // Ranks may report ready gradients at different points, and one rank reports none before the end.
        if (comm.rank() != static_cast<int>(step % 3)) {
          const RandomStream random(static_cast<std::uint64_t>(comm.rank()), RandomPurpose::dataset, step);
          std::int64_t ready = 0;
          for (std::uint64_t i = 0; ready < count; ++i) {
            const auto piece = std::min<std::int64_t>(count - ready,
                                                      1 + static_cast<std::int64_t>(random.below(700, i)));
            ready += piece;
            reducer.ready(space, ready);
          }
        }
        reducer.finish(space, [] {});
        std::vector<double> expected(static_cast<std::size_t>(count), 0.0);
        for (int r = 0; r < comm.size(); ++r) {
          const auto theirs = test::filling(10 * step + static_cast<std::uint64_t>(r), count);
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
        }
        ASSERT_LT(test::largest_difference(test::values_of(gradients), expected),
                  (dtype == DType::f64 ? 1e-15 : 3e-7) * comm.size())
            << "step " << step << ", " << count << " elements, buckets of " << bucket_mb << " MB";
      }
      EXPECT_GE(reducer.take_exposed_seconds(), 0.0);
      EXPECT_EQ(reducer.take_exposed_seconds(), 0.0);
    }
}

/// Buckets of 2 MB, and of 1 MB at both ends, begin in their order, as soon as their last gradient is ready. Without
/// overlap each is summed at once, which shows in the numbers; the last one in `finish`.
TEST(Reducer, SumsEachBucketAsSoonAsItIsReady) {
  const Topology topology(Communicator::world());
  constexpr std::int64_t count = 1'600'000;
  const GradientBuckets buckets({{0, count}}, count, 2, sizeof(float));
  ASSERT_EQ(buckets.trained.size(), 5u);
  ParallelConfig config;
  config.sums.bucket_mb = 2;
  config.sums.overlap = Overlap::none;
  config.sums.all_reduce = find_algorithm("ring");
  const OwnedTensor gradients("gradients", DType::f32, {count});
  const ExecSpace space;
  test::set_values(gradients.get(), std::vector<double>(count, 1.0));
  BucketedReducer reducer(config, {}, ShardGroups(config, topology), std::nullopt, gradients.get(), buckets);
  const auto summed = [&] {
    const std::vector<double> values = test::values_of(gradients.get());
    return std::ranges::count(values, topology.all.size());
  };
  std::int64_t ready = 0;  // the end of the bucket before
  for (const std::int64_t end : buckets.trained | std::views::transform(&ElementRange::end)) {
    const std::int64_t before = topology.all.size() == 1 ? count : ready;  // on one rank, 1 is the sum already
    reducer.ready(space, end - 1);
    if (!memory_is_separate) EXPECT_EQ(summed(), before);
    reducer.ready(space, end);
    const bool shows = end < count && topology.all.size() > 1;
    if (!memory_is_separate) EXPECT_EQ(summed(), shows ? end : before);  // sums of devices arrive later
    ready = end;
  }
  reducer.finish(space, [] {});
  EXPECT_EQ(summed(), count);
}

/// Numbers after the gradients (running variances) may not fit into 16 bits.
TEST(Reducer, SendsTheLastNumbersAsTheyAre) {
  const Topology topology(Communicator::world());
  if (topology.all.size() == 1) GTEST_SKIP() << "nothing is sent";
  constexpr std::int64_t count = 1000, exact = 900;
  for (const auto wire : {GradientSumConfig::Wire::bf16, GradientSumConfig::Wire::fp16}) {
    ParallelConfig config;
    config.sums.wire = wire;
    config.sums.all_reduce = find_algorithm("halving_doubling");
    const OwnedTensor gradients("gradients", DType::f32, {count});
    BucketedReducer reducer(config, {}, ShardGroups(config, topology), std::nullopt, gradients.get(),
                            {{{0, exact}}, count, 25, sizeof(float)});
    const ExecSpace space;
    for (int step = 0; step < 20; ++step) {
      std::vector<double> values(count, 1 + 1.0 / 64);
      std::fill(values.begin() + exact, values.end(), 131072.25);
      test::set_values(gradients.get(), values);
      reducer.ready(space, count);
      reducer.finish(space, [] {});
      values = test::values_of(gradients.get());
      for (const std::int64_t i : {std::int64_t{0}, exact - 1})
        EXPECT_NEAR(values[static_cast<std::size_t>(i)], topology.all.size() * (1 + 1.0 / 64), 0.1);
      for (const std::int64_t i : {exact, count - 1})
        EXPECT_EQ(values[static_cast<std::size_t>(i)], topology.all.size() * 131072.25);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SumsInBuckets,
    testing::Combine(testing::Values(Overlap::automatic, Overlap::none, Overlap::poll, Overlap::thread),
                     testing::Values("auto", "mpi", "halving_doubling"), testing::Values(DType::f32, DType::f64)));

}  // namespace
}  // namespace lockstep
