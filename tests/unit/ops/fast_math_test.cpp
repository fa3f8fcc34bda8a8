// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/fast_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/on_device.hpp"

namespace lockstep {
namespace {

using test::on_device;

struct Exp {
  template <class C>
  KOKKOS_FUNCTION C operator()(C x) const {
    return fast_exp(x);
  }
};
struct Expm1 {
  template <class C>
  KOKKOS_FUNCTION C operator()(C x) const {
    return fast_expm1(x);
  }
};
struct Tanh {
  template <class C>
  KOKKOS_FUNCTION C operator()(C x) const {
    return fast_tanh(x);
  }
};
struct Sigmoid {
  template <class C>
  KOKKOS_FUNCTION C operator()(C x) const {
    return fast_sigmoid(x);
  }
};
struct Gauss {
  template <class C>
  KOKKOS_FUNCTION auto operator()(C x) const {
    return fast_normal(x);
  }
};

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The error of `value` in units in the last place of `right`; below the normal numbers, of the smallest subnormal one.
double error_in_ulp(float value, double right) {
  const int exponent = std::max(std::ilogb(right), -126);
  return std::abs(static_cast<double>(value) - right) / std::ldexp(1.0, exponent - 23);
}

/// Returns steps + 1 equidistant numbers.
template <class C>
std::vector<C> from_to(C from, C to, int steps) {
  std::vector<C> numbers;
  for (int i = 0; i <= steps; ++i) numbers.push_back(from + (to - from) * (static_cast<C>(i) / static_cast<C>(steps)));
  return numbers;
}

template <class Fast, class Right>
double largest_error(float from, float to, Fast fast, Right right) {
  double largest = 0;
  const std::vector<float> x = from_to(from, to, 400'000), y = on_device(fast, x);
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, error_in_ulp(y[i], right(static_cast<double>(x[i]))));
  return largest;
}

TEST(FastMath, Expm1) {
  const auto right = [](double x) { return std::expm1(x); };
  EXPECT_LT(largest_error(-1, 1, Expm1{}, right), 6);
  EXPECT_LT(largest_error(-1e-4f, 1e-4f, Expm1{}, right), 6);
  EXPECT_LT(largest_error(-80, 0, Expm1{}, right), 6);
  EXPECT_EQ(on_device(Expm1{}, -1e-8f), -1e-8f);
  EXPECT_EQ(on_device(Expm1{}, -infinity), -1.0f);
}

TEST(FastMath, Exp) {
  const Exp fast;
  const auto right = [](double x) { return std::exp(x); };
  EXPECT_LT(largest_error(-87, 88.7f, fast, right), 2);
  EXPECT_LT(largest_error(-1, 1, fast, right), 2);
  EXPECT_LT(largest_error(-103, -87, fast, right), 2) << "subnormal results";
  EXPECT_EQ(on_device(Exp{}, 0.0f), 1.0f);
  EXPECT_EQ(on_device(Exp{}, -infinity), 0.0f);
  EXPECT_EQ(on_device(Exp{}, -1e30f), 0.0f);
  EXPECT_EQ(on_device(Exp{}, -105.0f), 0.0f);
  EXPECT_EQ(on_device(Exp{}, infinity), infinity);
  EXPECT_EQ(on_device(Exp{}, 88.8f), infinity);
  EXPECT_TRUE(std::isnan(on_device(Exp{}, std::nanf(""))));
}

TEST(FastMath, TanhAndSigmoid) {
  const Tanh tanh;
  const auto right_tanh = [](double x) { return std::tanh(x); };
  EXPECT_LT(largest_error(-12, 12, tanh, right_tanh), 3);
  EXPECT_LT(largest_error(-0.7f, 0.7f, tanh, right_tanh), 3);
  EXPECT_EQ(on_device(Tanh{}, 0.0f), 0.0f);
  EXPECT_EQ(on_device(Tanh{}, 1e-20f), 1e-20f);
  EXPECT_EQ(on_device(Tanh{}, infinity), 1.0f);
  EXPECT_EQ(on_device(Tanh{}, -infinity), -1.0f);
  EXPECT_TRUE(std::isnan(on_device(Tanh{}, std::nanf(""))));

  const auto right_sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(largest_error(-80, 20, Sigmoid{}, right_sigmoid), 4);
  EXPECT_EQ(on_device(Sigmoid{}, infinity), 1.0f);
  EXPECT_EQ(on_device(Sigmoid{}, -infinity), 0.0f);
  EXPECT_TRUE(std::isnan(on_device(Sigmoid{}, std::nanf(""))));
}

TEST(FastMath, Normal) {
  const auto probability = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const auto density = [](double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); };
  const std::vector<float> places = from_to(-13.0f, 13.0f, 200'000);
  const auto values = on_device(Gauss{}, places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const float x = places[i];
    const auto [p, d] = values[i];
    ASSERT_NEAR(p, probability(x), 2e-7) << x;
    if (x > -12) {
      ASSERT_NEAR(p / probability(x), 1, 6e-6) << "tails are small, and right; at " << x;
    }
    if (std::abs(x) < 12) {
      ASSERT_NEAR(d / density(x), 1, 6e-6) << x;
    }
  }
  EXPECT_EQ(on_device(Gauss{}, infinity).probability, 1.0f);
  EXPECT_EQ(on_device(Gauss{}, -infinity).probability, 0.0f);
  EXPECT_EQ(on_device(Gauss{}, infinity).density, 0.0f);
  EXPECT_TRUE(std::isnan(on_device(Gauss{}, std::nanf("")).probability));
  EXPECT_TRUE(std::isnan(on_device(Gauss{}, std::nanf("")).density));
  for (double x = -20; x < 20; x += 0.37) {
    EXPECT_NEAR(on_device(Gauss{}, x).probability, probability(x), 1e-13 * probability(x));
    EXPECT_NEAR(on_device(Gauss{}, x).density, density(x), 1e-13 * density(x));
  }
}

TEST(FastMath, Doubles) {
  const std::vector<double> x = from_to(-20.0, 20.0, 108);
  const auto exp = on_device(Exp{}, x), tanh = on_device(Tanh{}, x), sigmoid = on_device(Sigmoid{}, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_DOUBLE_EQ(exp[i], std::exp(x[i]));
    EXPECT_DOUBLE_EQ(tanh[i], std::tanh(x[i]));
    EXPECT_DOUBLE_EQ(sigmoid[i], 1 / (1 + std::exp(-x[i])));
  }
}

}  // namespace
}  // namespace lockstep
