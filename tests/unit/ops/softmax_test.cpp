// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/fast_math.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

class SoftmaxTest : public testing::TestWithParam<std::tuple<DType, Shape>> {};

TEST_P(SoftmaxTest, AgreesWithPlainLoops) {
  const auto& [dtype, shape] = GetParam();
  const ExecSpace space;
  const OwnedTensor x = test::make_filled(dtype, shape, 1, 20), dy = test::make_filled(dtype, shape, 2),
                    y("y", dtype, shape);
  const auto values = test::values_of(x.get()), gradient = test::values_of(dy.get());
  softmax_forward(space, x.get(), y.get());
  space.fence();
  const auto result = test::values_of(y.get());
  softmax_backward(space, y.get(), dy.get(), dy.get());  // in place
  space.fence();

  std::vector<double> expected_y(values.size()), expected_dx(values.size());
  const auto c = static_cast<std::size_t>(shape[-1]);
  for (std::size_t row = 0; row < values.size(); row += c) {
    double sum = 0, dot = 0;
    for (std::size_t j = row; j < row + c; ++j) sum += std::exp(values[j] - values[row]);
    for (std::size_t j = row; j < row + c; ++j) dot += gradient[j] * result[j];
    for (std::size_t j = row; j < row + c; ++j) {
      expected_y[j] = std::exp(values[j] - values[row]) / sum;
      expected_dx[j] = result[j] * (gradient[j] - dot);
    }
  }
  const double tolerance = test::rounding_error(dtype) + (dtype == DType::f64 ? 1e-14 : 2e-6);
  EXPECT_LT(test::largest_difference(result, expected_y), tolerance);
  EXPECT_LT(test::largest_difference(test::values_of(dy.get()), expected_dx), tolerance);
}

TEST_P(SoftmaxTest, LargeNumbersDoNotOverflow) {
  const OwnedTensor x = test::make_tensor(std::get<0>(GetParam()), {2, 3}, {60000, -60000, 0, -60000, -60000, -60000}),
                    y("y", std::get<0>(GetParam()), {2, 3});
  softmax_forward(ExecSpace(), x.get(), y.get());
  ExecSpace().fence();
  const auto third = test::rounded(std::get<0>(GetParam()), {1.0 / 3})[0];
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), {1, 0, 0, third, third, third}), 1e-7);
}

/// Numbers that a mask has made −∞ get 0, also where the first number of a row is one.
TEST_P(SoftmaxTest, InfinitelySmallNumbersGetNothing) {
  const auto& [dtype, shape] = GetParam();
  const std::int64_t c = shape[-1], rows = shape.count() / c;
  if (c < 3) return;
  std::vector<double> x(static_cast<std::size_t>(rows * c), -std::numeric_limits<double>::infinity());
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(c)) x[row + 1] = x[row + 2] = 1;
  const OwnedTensor y = test::make_tensor(dtype, {rows, c}, x);
  softmax_forward(ExecSpace(), y.get(), y.get());  // in place
  ExecSpace().fence();
  for (double& value : x) value = value == 1 ? 0.5 : 0;
  EXPECT_EQ(test::values_of(y.get()), x);
}

TEST_P(SoftmaxTest, NotANumberShows) {
  const auto& [dtype, shape] = GetParam();
  const OwnedTensor y = test::make_filled(dtype, shape, 1), x = test::make_filled(dtype, shape, 1);
  std::vector<double> values = test::values_of(x.get());
  values.back() = std::numeric_limits<double>::quiet_NaN();
  softmax_forward(ExecSpace(), test::make_tensor(dtype, shape, values).get(), y.get());
  ExecSpace().fence();
  const std::vector<double> result = test::values_of(y.get());
  const auto bad = std::ranges::count_if(result, [](double value) { return std::isnan(value); });
  EXPECT_EQ(bad, shape[-1]);
}

template <class C>
void powers_of(const ExecSpace& space, const C* x, C* powers, std::int64_t count) {
  Kokkos::parallel_for(
      "powers", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) { powers[i] = fast_exp(x[i]); });
}

/// With two finite numbers a row, the sum of exponentials has one rounding in any order. The exponentials of doubles
/// are the library's, the same in every kernel; those of floats differ slightly, since compilers fuse operations
/// differently in each kernel, and GPUs also use exp_of_distance.
template <class C>
void expect_quotients(DType dtype, std::int64_t c) {
  const ExecSpace space;
  const std::int64_t rows = 500;
  std::vector<double> x(static_cast<std::size_t>(rows * c), -std::numeric_limits<double>::infinity());
  const std::vector<double> second = test::rounded(dtype, test::filling(1, rows, 3));
  for (std::size_t row = 0; row < second.size(); ++row) {
    x[row * static_cast<std::size_t>(c)] = 0;
    x[(row + 1) * static_cast<std::size_t>(c) - 1] = -std::abs(second[row]);
  }
  const OwnedTensor given = test::make_tensor(dtype, {rows, c}, x), powers("powers", dtype, {rows, c}),
                    y("y", dtype, {rows, c});
  powers_of(space, given.get().as<const C>(), powers.get().as<C>(), rows * c);
  softmax_forward(space, given.get(), y.get());
  space.fence();
  const std::vector<double> power = test::values_of(powers.get()), found = test::values_of(y.get());
  const auto expect_close = [&](double value, C wanted, double at) {
    const double units = std::is_same_v<C, double> ? 0 : 4;
    EXPECT_LE(std::abs(value - wanted), units * std::numeric_limits<C>::epsilon() * wanted)
        << value << " is not " << wanted << ": " << c << " columns, x = " << at;
  };
  for (std::size_t last = static_cast<std::size_t>(c) - 1; last < found.size(); last += static_cast<std::size_t>(c)) {
    const C sum = C(1) + C(power[last]);
    expect_close(found[last], C(power[last]) / sum, x[last]);
    expect_close(found[last - static_cast<std::size_t>(c) + 1], C(1) / sum, x[last]);
  }
}

/// Rows that GPUs keep in registers, and longer ones, are divided by their sums with a single rounding.
TEST(Softmax, IsQuotientsOnEveryWay) {
  for (const std::int64_t c : {8, 1024, 7, 2049}) {
    expect_quotients<float>(DType::f32, c);
    expect_quotients<double>(DType::f64, c);
  }
}

// Rows that GPUs keep in registers, and others: rows that are too long for that, or that begin between packs.
INSTANTIATE_TEST_SUITE_P(Types, SoftmaxTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Shape{5, 7}, Shape{2, 3, 64}, Shape{1, 1001}, Shape{9, 1},
                                                          Shape{3, 8}, Shape{6, 1024}, Shape{3, 1048},
                                                          Shape{3, 2049})));

}  // namespace
}  // namespace lockstep
