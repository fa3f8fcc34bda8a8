// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

class Reducer : public testing::TestWithParam<std::tuple<DType, std::int64_t, double>> {};

TEST_P(Reducer, SumsWhateverTheBuckets) {
  const auto& [dtype, count, bucket_mb] = GetParam();
  const Communicator comm = Communicator::world();
  ParallelConfig config;
  config.bucket_mb = bucket_mb;
  const OwnedTensor gradients("gradients", dtype, {count});
  GradientReducer reducer(comm, config, gradients.get());
  const ExecSpace space;
  for (std::uint64_t step = 0; step < 4; ++step) {
    test::set_values(gradients.get(), test::filling(10 * step + static_cast<std::uint64_t>(comm.rank()), count));
    // Ranks may disagree about when gradients are ready, and one without examples says nothing at all.
    if (comm.rank() != static_cast<int>(step % 3)) {
      const RandomStream random(static_cast<std::uint64_t>(comm.rank()), RandomPurpose::dataset, step);
      std::int64_t ready = 0;
      for (std::uint64_t i = 0; ready < count; ++i) {
        const auto piece = std::min<std::int64_t>(count - ready, 1 + static_cast<std::int64_t>(random.below(700, i)));
        reducer.ready(space, piece);
        ready += piece;
      }
    }
    reducer.finish(space);
    std::vector<double> expected(static_cast<std::size_t>(count), 0.0);
    for (int r = 0; r < comm.size(); ++r) {
      const auto theirs = test::filling(10 * step + static_cast<std::uint64_t>(r), count);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
    }
    ASSERT_LT(test::largest_difference(test::values_of(gradients.get()), expected), dtype == DType::f64 ? 1e-15 : 1e-6)
        << "step " << step;
  }
  EXPECT_GE(reducer.take_exposed_seconds(), 0.0);
  EXPECT_EQ(reducer.take_exposed_seconds(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reducer,
                         testing::Combine(testing::Values(DType::f32, DType::f64), testing::Values(1, 250, 251, 5003),
                                          testing::Values(0.001, 0.00137, 0.02, 25)));

}  // namespace
}  // namespace lockstep
