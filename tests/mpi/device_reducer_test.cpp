// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On hosts, MPI sums in device memory; in preset fake_device NCCL's stand-in does, and on devices NCCL.
#include "parallel/reducers/device_reducer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/device_all_reduce.hpp"
#include "comm/spin_backoff.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using Wire = GradientSumConfig::Wire;
using Overlap = GradientSumConfig::Overlap;

/// Sums in device memory; null if there are fewer devices than ranks.
std::unique_ptr<DeviceAllReduce> sums_in_place(const Communicator& ranks) {
  if constexpr (!memory_is_separate) return mpi_device_all_reduce(ranks);
  const DeviceFacts facts = device_facts(ranks);
  return facts.has_nccl && facts.shared.empty() ? nccl_all_reduce(ranks) : nullptr;
}

class SumsOnDevices : public testing::TestWithParam<std::tuple<Overlap, DType>> {};

TEST_P(SumsOnDevices, WhateverTheBuckets) {
  const auto& [overlap, dtype] = GetParam();
  const Communicator ranks = Communicator::world();
  const ExecSpace space;
  for (const std::int64_t count : {1, 250, 251, 5003})
    for (const double bucket_mb : {0.001, 0.00137, 25.0}) {
      ParallelConfig config;
      config.sums.bucket_mb = bucket_mb;
      config.sums.overlap = overlap;
      auto sums = sums_in_place(ranks);
      if (!sums) GTEST_SKIP() << "ranks share devices";
      const OwnedTensor gradients("gradients", dtype, {count});
      DeviceReducer reducer(config, std::move(sums), gradients.get(), {{{0, count}}, count, bucket_mb, size_of(dtype)});
      for (std::uint64_t step = 0; step < 4; ++step) {
        // A kernel writes gradients, as in the backward pass, in pieces that are no buckets. One rank has no examples.
        const bool idle = ranks.rank() == static_cast<int>(step % 3);
        const OwnedTensor computed = test::make_filled(
            dtype, {count}, 10 * step + static_cast<std::uint64_t>(ranks.rank()), idle ? 0.0 : 1.0);
        std::vector<double> expected(static_cast<std::size_t>(count), 0.0);
        for (int rank = 0; rank < ranks.size(); ++rank) {
          if (rank == static_cast<int>(step % 3)) continue;
          const auto theirs = test::filling(10 * step + static_cast<std::uint64_t>(rank), count);
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
        }
        copy(space, computed.get(), gradients.get());
        for (std::int64_t ready = 0, piece = 0; ready < count && !idle; ready += piece) {
          piece = std::min<std::int64_t>(count - ready, 97);
          reducer.ready(space, ready + piece);
        }
        if (!idle) reducer.gradient_sum_done(space);
        reducer.finish(space, [] {});
        ASSERT_LT(test::largest_difference(test::values_of(gradients.get()), expected),
                  (dtype == DType::f64 ? 1e-15 : 3e-7) * ranks.size())
            << "step " << step << ", " << count << " elements, buckets of " << bucket_mb << " MB";
      }
      EXPECT_GE(reducer.take_exposed_seconds(), 0.0);
      EXPECT_EQ(reducer.take_exposed_seconds(), 0.0);
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, SumsOnDevices,
                         testing::Combine(testing::Values(Overlap::automatic, Overlap::none),
                                          testing::Values(DType::f32, DType::f64)));

/// Numbers after the gradients (running variances) may not fit into 16 bits.
TEST(DeviceReducer, SendsTheLastNumbersAsTheyAre) {
  const Communicator ranks = Communicator::world();
  const ExecSpace space;
  constexpr std::int64_t count = 1000, exact = 900;
  if constexpr (!memory_is_separate) GTEST_SKIP() << "MPI does not add in 16 bits";
  for (const auto wire : {Wire::bf16, Wire::fp16}) {
    auto sums = sums_in_place(ranks);
    if (!sums) GTEST_SKIP() << "ranks share devices";
    ParallelConfig config;
    config.sums.wire = wire;
    config.sums.bucket_mb = 0.001;
    const OwnedTensor gradients("gradients", DType::f32, {count});
    DeviceReducer reducer(config, std::move(sums), gradients.get(),
                          {{{0, exact}}, count, config.sums.bucket_mb, sizeof(float)});
    for (int step = 0; step < 3; ++step) {
      std::vector<double> values(count, 1 + 1.0 / 64 + 1.0 / 4096);  // 16 bits lose the last term
      std::fill(values.begin() + exact, values.end(), 131072.25);
      test::set_values(gradients.get(), values);
      reducer.ready(space, count);
      reducer.finish(space, [] {});
      values = test::values_of(gradients.get());
      const DType dtype = wire == Wire::bf16 ? DType::bf16 : DType::f16;
      const double rounded = test::rounded(dtype, {1 + 1.0 / 64 + 1.0 / 4096})[0];
      for (const std::int64_t i : {std::int64_t{0}, exact - 1})
        EXPECT_NEAR(values[static_cast<std::size_t>(i)], ranks.size() * rounded,
                    ranks.size() * ranks.size() * test::rounding_error(dtype));
      for (const std::int64_t i : {exact, count - 1})
        EXPECT_EQ(values[static_cast<std::size_t>(i)], ranks.size() * 131072.25);
    }
  }
}

/// Fills `values` by a kernel, so that an event can come before it.
void write(const ExecSpace& space, const Tensor& values, float number) {
  auto* const written = values.as<float>();
  Kokkos::parallel_for(
      "lockstep::write", RangePolicy(space, 0, values.count()),
      KOKKOS_LAMBDA(const std::int64_t i) { written[i] = number; });
}

TEST(DeviceSums, AreThereWhenTheySaySo) {
  const Communicator ranks = Communicator::world();
  const auto sums = sums_in_place(ranks);
  if (!sums) GTEST_SKIP() << "ranks share devices";
  const ExecSpace space;
  const OwnedTensor first("first", DType::f32, {70'001}), second("second", DType::f32, {3});
  for (int step = 0; step < 3; ++step) {
    write(space, first.get(), 1);
    sums->start(first.get(), StreamEvent(space));
    write(space, second.get(), 2);
    sums->start(second.get(), StreamEvent(space));
    wait_until([&] { return sums->advance() == 0; });
    for (const auto& [tensor, sum] : {std::pair(first.get(), 1.0), std::pair(second.get(), 2.0)})
      EXPECT_EQ(test::values_of(tensor),
                std::vector<double>(static_cast<std::size_t>(tensor.count()), sum * ranks.size()));
  }
  EXPECT_EQ(sums->advance(), 0u);
}

TEST(DeviceSums, ThatDoNotWaitForTheirKernelsShow) {
  if constexpr (!LOCKSTEP_FAKE_DEVICE) GTEST_SKIP() << "preset fake_device shows it";
  const Communicator ranks = Communicator::world();
  const auto sums = sums_in_place(ranks);
  const ExecSpace space;
  const OwnedTensor values("values", DType::f32, {3});
  const StreamEvent too_early(space);
  write(space, values.get(), 1);
  sums->start(values.get(), too_early);
  wait_until([&] { return sums->advance() == 0; });
  for (const double value : test::values_of(values.get())) EXPECT_TRUE(std::isnan(value));
}

TEST(DeviceSums, ThatAreNotWaitedForShow) {
  if constexpr (!LOCKSTEP_FAKE_DEVICE) GTEST_SKIP() << "preset fake_device shows it";
  const Communicator ranks = Communicator::world();
  if (ranks.size() == 1) GTEST_SKIP() << "1 is the sum";
  const auto sums = sums_in_place(ranks);
  const ExecSpace space;
  const OwnedTensor values("values", DType::f32, {3}), used("used", DType::f32, {3});
  write(space, values.get(), 1);
  sums->start(values.get(), StreamEvent(space));
  EXPECT_GT(sums->advance(), 0u);
  copy(space, values.get(), used.get());  // before the sum has arrived
  wait_until([&] { return sums->advance() == 0; });
  EXPECT_EQ(test::values_of(used.get()), std::vector<double>(3, 1.0));
  EXPECT_EQ(test::values_of(values.get()), std::vector<double>(3, ranks.size()));
}

/// On hosts all memory is alike, and the trial with known numbers succeeds. In preset fake_device the library does not
/// claim to support device memory.
TEST(MpiInDeviceMemory, IsTriedBefore) {
  const bool taken = mpi_takes_device_memory(Communicator::world());
  if constexpr (!is_a_device) EXPECT_EQ(taken, !memory_is_separate);
}

}  // namespace
}  // namespace lockstep
