// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/gradient_noise_scale.hpp"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.hpp"

#include <random>

namespace lockstep {
namespace {

/// Gradients of examples are G plus noise of variance σ² in each of d numbers, so that tr(Σ) = d σ².
class Gaussian : public testing::Test {
 protected:
  static constexpr int d = 2000;
  const Communicator comm = Communicator::world();

  /// The gradient summed over n examples, n G + √n · noise. `seed`: of the noise.
  std::vector<double> sum_over(std::int64_t n, double sigma, std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 1);
    std::vector<double> sum(d);
    for (int i = 0; i < d; ++i)
      sum[static_cast<std::size_t>(i)] = static_cast<double>(n) * (i % 2 == 0 ? 0.1 : -0.1) +
                                         std::sqrt(static_cast<double>(n)) * sigma * normal(random);
    return sum;
  }
  static double square(const std::vector<double>& numbers) {
    double sum = 0;
    for (const double number : numbers) sum += number * number;
    return sum;
  }
};

TEST_F(Gaussian, IsFoundWithinFivePerCent) {
  const double sigma = 1.5, expected = d * sigma * sigma / (d * 0.01);
  for (const double scale : {1.0, 4096.0}) {
    NoiseScale noise;
    for (std::uint64_t step = 0; step < 400; ++step) {
      // Shares differ, and in every third step the third rank has no examples.
      std::vector<double> all(d, 0.0);
      std::int64_t examples = 0;
      for (int rank = 0; rank < comm.size(); ++rank) {
        const std::int64_t own = rank == 2 && step % 3 == 0 ? 0 : 16 + rank % 2;
        std::vector<double> sum = sum_over(own, sigma, 1000 * step + static_cast<std::uint64_t>(rank));
        for (double& number : sum) number *= scale;
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += sum[i];
        examples += own;
        if (rank != comm.rank()) continue;
        noise.add_small_batch(square({sum.begin(), sum.begin() + 700}));
        noise.add_small_batch(square({sum.begin() + 700, sum.end()}));
        noise.end_small_batch(own);
      }
      noise.end_step(comm, square(all), examples, scale);
    }
    if (comm.size() == 1) {
      EXPECT_FALSE(noise.value());
    } else {
      EXPECT_NEAR(noise.value().value_or(0) / expected, 1.0, 0.05) << "scale " << scale;
    }
  }
}

TEST_F(Gaussian, GoesOnFromItsState) {
  NoiseScale whole, first;
  const auto run = [&](NoiseScale& noise, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step < to; ++step) {
      noise.add_small_batch(square(sum_over(8, 1, 10 * step + static_cast<std::uint64_t>(comm.rank()))));
      noise.end_small_batch(8);
      noise.end_step(comm, square(sum_over(8 * comm.size(), 1, 10 * step)), 8 * comm.size(), 1);
    }
  };
  run(whole, 0, 20);
  run(first, 0, 7);
  NoiseScale second;
  restore_state(state_text([&](StateFields& fields) { first.describe_state(fields); }),
                [&](StateFields& fields) { second.describe_state(fields); });
  run(second, 7, 20);
  EXPECT_EQ(whole.value(), second.value());
}

}  // namespace
}  // namespace lockstep
