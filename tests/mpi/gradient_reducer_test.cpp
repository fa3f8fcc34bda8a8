// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using Overlap = ParallelConfig::Overlap;

class Reducer : public testing::TestWithParam<std::tuple<Overlap, AllReduceKind, DType>> {};

TEST_P(Reducer, SumsWhateverTheBuckets) {
  const auto& [overlap, all_reduce, dtype] = GetParam();
  const Topology topology(Communicator::world(), 0);
  const Communicator& comm = topology.all;
  for (const std::int64_t count : {1, 250, 251, 5003})
    for (const double bucket_mb : {0.001, 0.00137, 0.02, 25.0}) {
      ParallelConfig config;
      config.bucket_mb = bucket_mb;
      config.overlap = overlap;
      config.all_reduce = all_reduce;
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
      const auto memory = gradient_memory(config, topology, bytes);
      const OwnedTensor own("gradients", dtype, {count});
      Tensor gradients = own.get();
      if (memory && host_shares_memory) gradients.data = memory->part(topology.node.rank());
      GradientReducer reducer(config, topology, memory, gradients);
      const ExecSpace space;
      // More steps than `auto` needs to choose.
      for (std::uint64_t step = 0; step < (overlap == Overlap::automatic ? 18 : 4); ++step) {
        test::set_values(gradients, test::filling(10 * step + static_cast<std::uint64_t>(comm.rank()), count));
        // Ranks may disagree about when gradients are ready, and one without examples says nothing at all.
        if (comm.rank() != static_cast<int>(step % 3)) {
          const RandomStream random(static_cast<std::uint64_t>(comm.rank()), RandomPurpose::dataset, step);
          std::int64_t ready = 0;
          for (std::uint64_t i = 0; ready < count; ++i) {
            const auto piece = std::min<std::int64_t>(count - ready,
                                                      1 + static_cast<std::int64_t>(random.below(700, i)));
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
        ASSERT_LT(test::largest_difference(test::values_of(gradients), expected),
                  (dtype == DType::f64 ? 1e-15 : 3e-7) * comm.size())
            << "step " << step << ", " << count << " elements, buckets of " << bucket_mb << " MB";
      }
      EXPECT_GE(reducer.take_exposed_seconds(), 0.0);
      EXPECT_EQ(reducer.take_exposed_seconds(), 0.0);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Reducer,
    testing::Combine(testing::Values(Overlap::automatic, Overlap::none, Overlap::poll, Overlap::thread),
                     testing::Values(AllReduceKind::automatic, AllReduceKind::mpi, AllReduceKind::halving_doubling),
                     testing::Values(DType::f32, DType::f64)));

}  // namespace
}  // namespace lockstep
