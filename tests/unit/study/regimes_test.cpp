// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/curves.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep {
namespace {

std::vector<BatchSteps> curve(double least, double critical, double deviation, unsigned seed, double resolution = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, deviation > 0 ? deviation : 1);
  std::vector<BatchSteps> points;
  for (double batch = 8; batch <= 1024; batch *= 2) {
    const double noise = deviation > 0 ? std::exp(normal(random)) : 1;
    points.push_back({batch, least * (1 + critical / batch) * noise, resolution});
  }
  return points;
}

TEST(Regimes, FindsTheCurveThatPointsAreTakenFrom) {
  for (const double critical : {5.0, 100.0, 3000.0}) {
    const auto fit = fit_scaling(curve(200, critical, 0, 1));
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->critical_batch / critical, 1, 2e-3);
    EXPECT_NEAR(fit->least_steps / 200, 1, 2e-3);
    EXPECT_NEAR(fit->deviation, 0, 1e-3);
  }
  EXPECT_FALSE(fit_scaling(std::vector<BatchSteps>{{8, 100, 0}, {16, 60, 0}}));
}

TEST(Regimes, TheIntervalHoldsTheCriticalBatchNineteenTimesOfTwenty) {
  int holds = 0;
  constexpr int count = 200;
  for (unsigned seed = 1; seed <= count; ++seed) {
    const auto fit = fit_scaling(curve(200, 100, 0.1, seed));
    ASSERT_TRUE(fit && fit->low && fit->high);
    holds += *fit->low <= 100 && 100 <= *fit->high ? 1 : 0;
  }
  EXPECT_GT(holds, 0.92 * count);
  EXPECT_LT(holds, 0.98 * count);
}

TEST(Regimes, ThereIsNoLimitWhereNoPlateauIsSeen) {
  const auto fit = fit_scaling(curve(1e-3, 1e8, 0.05, 3));
  ASSERT_TRUE(fit);
  EXPECT_TRUE(fit->low);
  EXPECT_FALSE(fit->high);
}

TEST(Regimes, TheDistanceOfEvaluationsWidensTheInterval) {
  const auto narrow = fit_scaling(curve(200, 100, 0, 1)), wide = fit_scaling(curve(200, 100, 0, 1, 40));
  EXPECT_LT(*wide->low, *narrow->low);
  EXPECT_GT(*wide->high, *narrow->high);
}

TEST(Regimes, Names) {
  const ScalingFit fit{.least_steps = 10, .critical_batch = 100};
  EXPECT_EQ(regime_of(fit, 10), Regime::perfect_scaling);
  EXPECT_EQ(regime_of(fit, 100), Regime::diminishing_returns);
  EXPECT_EQ(regime_of(fit, 1000), Regime::maximal_data_parallelism);
}

TEST(Regimes, LargestEfficientBatch) {
  // S B / (S_0 B_0) is 1, 1 and 1.44: the limit of 1.2 lies in the middle of the last two, in logarithms.
  const std::vector<BatchSteps> points{{64, 36, 0}, {16, 100, 0}, {32, 50, 0}};
  const auto found = largest_efficient_batch(points);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_limit);
  EXPECT_NEAR(found->batch, 32 * std::sqrt(2.0), 1e-9);
  EXPECT_FALSE(largest_efficient_batch(std::vector<BatchSteps>{{16, 100, 0}, {32, 55, 0}})->is_limit);
}

TEST(Regimes, Power) {
  const std::vector<std::pair<double, double>> points{{1, 3}, {4, 6}, {16, 12}};
  EXPECT_NEAR(*fit_power(points), 0.5, 1e-12);
}

}  // namespace
}  // namespace lockstep
