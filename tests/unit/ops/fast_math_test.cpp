// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/fast_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Units in the last place of `right` (of the smallest subnormal number below that).
double error_in_ulp(float value, double right) {
  const int exponent = std::max(std::ilogb(right), -126);
  return std::abs(static_cast<double>(value) - right) / std::ldexp(1.0, exponent - 23);
}

template <class Fast, class Right>
double largest_error(float from, float to, Fast fast, Right right) {
  double largest = 0;
  constexpr int steps = 400'000;
  for (int i = 0; i <= steps; ++i) {
    const float x = from + (to - from) * (static_cast<float>(i) / steps);
    largest = std::max(largest, error_in_ulp(fast(x), right(static_cast<double>(x))));
  }
  return largest;
}

TEST(FastMath, Exp) {
  const auto fast = [](float x) { return fast_exp(x); };
  const auto right = [](double x) { return std::exp(x); };
  EXPECT_LT(largest_error(-87, 88.7f, fast, right), 2);
  EXPECT_LT(largest_error(-1, 1, fast, right), 2);
  EXPECT_LT(largest_error(-103, -87, fast, right), 2) << "subnormal results";
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-infinity), 0.0f);
  EXPECT_EQ(fast_exp(-1e30f), 0.0f);
  EXPECT_EQ(fast_exp(-105.0f), 0.0f);
  EXPECT_EQ(fast_exp(infinity), infinity);
  EXPECT_EQ(fast_exp(88.8f), infinity);
  EXPECT_TRUE(std::isnan(fast_exp(std::nanf(""))));
}

TEST(FastMath, TanhAndSigmoid) {
  const auto tanh = [](float x) { return fast_tanh(x); };
  const auto right_tanh = [](double x) { return std::tanh(x); };
  EXPECT_LT(largest_error(-12, 12, tanh, right_tanh), 3);
  EXPECT_LT(largest_error(-0.7f, 0.7f, tanh, right_tanh), 3);
  EXPECT_EQ(fast_tanh(0.0f), 0.0f);
  EXPECT_EQ(fast_tanh(1e-20f), 1e-20f);
  EXPECT_EQ(fast_tanh(infinity), 1.0f);
  EXPECT_EQ(fast_tanh(-infinity), -1.0f);
  EXPECT_TRUE(std::isnan(fast_tanh(std::nanf(""))));

  const auto right_sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(largest_error(
                -80, 20, [](float x) { return fast_sigmoid(x); }, right_sigmoid),
            4);
  EXPECT_EQ(fast_sigmoid(infinity), 1.0f);
  EXPECT_EQ(fast_sigmoid(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(fast_sigmoid(std::nanf(""))));
}

TEST(FastMath, Normal) {
  const auto probability = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const auto density = [](double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); };
  constexpr int steps = 200'000;
  for (int i = 0; i <= steps; ++i) {
    const float x = -13 + 26 * (static_cast<float>(i) / steps);
    const auto [p, d] = fast_normal(x);
    ASSERT_NEAR(p, probability(x), 2e-7) << x;
    if (x > -12) {
      ASSERT_NEAR(p / probability(x), 1, 6e-6) << "tails are small, and right; at " << x;
    }
    if (std::abs(x) < 12) {
      ASSERT_NEAR(d / density(x), 1, 6e-6) << x;
    }
  }
  EXPECT_EQ(fast_normal(infinity).probability, 1.0f);
  EXPECT_EQ(fast_normal(-infinity).probability, 0.0f);
  EXPECT_EQ(fast_normal(infinity).density, 0.0f);
  EXPECT_TRUE(std::isnan(fast_normal(std::nanf("")).probability));
  EXPECT_TRUE(std::isnan(fast_normal(std::nanf("")).density));
  for (double x = -20; x < 20; x += 0.37) {
    EXPECT_NEAR(fast_normal(x).probability, probability(x), 1e-13 * probability(x));
    EXPECT_NEAR(fast_normal(x).density, density(x), 1e-13 * density(x));
  }
}

TEST(FastMath, Doubles) {
  for (double x = -20; x < 20; x += 0.37) {
    EXPECT_EQ(fast_exp(x), std::exp(x));
    EXPECT_EQ(fast_tanh(x), std::tanh(x));
    EXPECT_EQ(fast_sigmoid(x), 1 / (1 + std::exp(-x)));
  }
}

}  // namespace
}  // namespace lockstep
