// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::filling;
using test::make_filled;
using test::rounded;
using test::rounding_error;
using test::values_of;

class Elementwise : public testing::TestWithParam<DType> {
 protected:
  const ExecSpace space;
  const DType dtype = GetParam();
  const Shape shape{7, 13, 3};
  const std::vector<double> a = rounded(dtype, filling(1, shape.count())),
                            b = rounded(dtype, filling(2, shape.count()));
  /// Error of a result of a few fp32 (for f64: fp64) operations that is rounded once to the dtype.
  const double tolerance = rounding_error(dtype) + (dtype == DType::f64 ? 1e-15 : 4e-7);
};

TEST_P(Elementwise, Relu) {
  const OwnedTensor x = make_filled(dtype, shape, 1), dy = make_filled(dtype, shape, 2);
  const OwnedTensor y("y", dtype, shape), dx("dx", dtype, shape);
  activation_forward(space, Activation::relu, x.get(), y.get());
  activation_backward(space, Activation::relu, y.get(), dy.get(), dx.get());
  space.fence();
  std::vector<double> expected_y, expected_dx;
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected_y.push_back(a[i] > 0 ? a[i] : 0);
    expected_dx.push_back(a[i] > 0 ? b[i] : 0);
  }
  EXPECT_EQ(values_of(y.get()), expected_y);
  EXPECT_EQ(values_of(dx.get()), expected_dx);
}

TEST_P(Elementwise, ReluOfNothingIsFlat) {
  const OwnedTensor x = test::make_tensor(dtype, {3}, {0.0, -0.0, 1.0}), dy = test::make_tensor(dtype, {3}, {5, 5, 5});
  const OwnedTensor y("y", dtype, {3}), dx("dx", dtype, {3});
  activation_forward(space, Activation::relu, x.get(), y.get());
  activation_backward(space, Activation::relu, y.get(), dy.get(), dx.get());
  space.fence();
  EXPECT_EQ(values_of(dx.get()), (std::vector<double>{0, 0, 5})) << "as PyTorch: no gradient at 0";
}

TEST_P(Elementwise, ReluKeepsWhatIsNotANumber) {
  const OwnedTensor x("x", GetParam(), {37}), y("y", GetParam(), {37});
  test::poison(x.get());
  activation_forward(ExecSpace(), Activation::relu, x.get(), y.get());
  ExecSpace().fence();
  for (const double value : test::values_of(y.get())) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Elementwise, TanhAndSigmoid) {
  const OwnedTensor x = make_filled(dtype, shape, 1, 4), dy = make_filled(dtype, shape, 2), y("y", dtype, shape),
                    dx("dx", dtype, shape);
  const std::vector<double> values = values_of(x.get());
  for (const Activation activation : {Activation::tanh, Activation::sigmoid}) {
    activation_forward(space, activation, x.get(), y.get());
    activation_backward(space, activation, y.get(), dy.get(), dx.get());
    space.fence();
    const std::vector<double> result = values_of(y.get());
    std::vector<double> expected_y, expected_dx;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double r = result[i];
      expected_y.push_back(activation == Activation::tanh ? std::tanh(values[i]) : 1 / (1 + std::exp(-values[i])));
      expected_dx.push_back(b[i] * (activation == Activation::tanh ? 1 - r * r : r * (1 - r)));
    }
    EXPECT_LT(test::largest_difference(result, expected_y), tolerance);
    EXPECT_LT(test::largest_difference(values_of(dx.get()), expected_dx), tolerance);
  }
}

TEST_P(Elementwise, GeluIsExact) {
  std::vector<double> values{0, -0.0, 1e-30, 40, -40, 88, -200, 3e4, -3e4};
  for (double value = -9; value < 9; value += 1.0 / 1024) values.push_back(value);
  values = rounded(dtype, values);
  const Shape all{static_cast<std::int64_t>(values.size())};
  const OwnedTensor x = test::make_tensor(dtype, all, values), dy = make_filled(dtype, all, 2), y("y", dtype, all),
                    slope("slope", dtype, all);
  const std::vector<double> gradient = values_of(dy.get());
  activation_forward(space, Activation::gelu, x.get(), y.get(), slope.get());
  activation_backward(space, Activation::gelu, slope.get(), dy.get(), dy.get());  // in place
  activation_forward(space, Activation::gelu, x.get(), x.get());                  // in place, without a slope
  space.fence();
  std::vector<double> expected_y, expected_dx;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i], probability = 0.5 * std::erfc(-v / std::sqrt(2.0));
    expected_y.push_back(v * probability);
    expected_dx.push_back(gradient[i] * (probability + v * std::exp(-0.5 * v * v) / std::sqrt(2 * M_PI)));
  }
  EXPECT_LT(test::largest_difference(values_of(y.get()), expected_y), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), expected_dx), 2 * tolerance) << "rounded twice";
  EXPECT_EQ(values_of(x.get()), values_of(y.get()));
}

TEST_P(Elementwise, GeluKeepsWhatIsNotANumber) {
  const OwnedTensor x("x", dtype, {37}), y("y", dtype, {37});
  test::poison(x.get());
  activation_forward(space, Activation::gelu, x.get(), y.get(), x.get());
  space.fence();
  for (const double value : values_of(y.get())) EXPECT_TRUE(std::isnan(value));
  for (const double value : values_of(x.get())) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Elementwise, AddAndAccumulate) {
  const OwnedTensor x = make_filled(dtype, shape, 1), z = make_filled(dtype, shape, 2), y("y", dtype, shape);
  test::poison(y.get());
  add(space, x.get(), z.get(), y.get());
  accumulate(space, x.get(), y.get());
  space.fence();
  std::vector<double> expected;
  for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(a[i] + b[i] + a[i]);
  EXPECT_LT(test::largest_difference(values_of(y.get()), expected), 3 * tolerance) << "rounded twice";
}

TEST_P(Elementwise, DropoutKeepsItsShareAndScalesIt) {
  const Shape many{100000};
  const OwnedTensor x = test::make_tensor(dtype, many, std::vector<double>(100000, 1.0)), y("y", dtype, many);
  dropout(space, {.seed = 1, .stream = 2, .rate = 0.3}, x.get(), y.get());
  space.fence();
  double dropped = 0;
  for (const double value : values_of(y.get())) {
    if (value == 0) ++dropped;
    else EXPECT_NEAR(value, 1 / 0.7, 2 * tolerance);
  }
  EXPECT_NEAR(dropped / 1e5, 0.3, 5 * std::sqrt(0.21 / 1e5));
}

TEST_P(Elementwise, DropoutDependsOnThePlaceInTheGlobalBatch) {
  const OwnedTensor x = make_filled(dtype, {60}, 1), whole("whole", dtype, {60}), part("part", dtype, {25});
  dropout(space, {.seed = 9, .stream = 4, .rate = 0.5}, x.get(), whole.get());
  const Tensor tail{static_cast<std::byte*>(x.get().data) + 35 * size_of(dtype), dtype, {25}};
  dropout(space, {.seed = 9, .stream = 4, .first_element = 35, .rate = 0.5}, tail, part.get());
  space.fence();
  const auto all = values_of(whole.get());
  EXPECT_EQ(values_of(part.get()), std::vector<double>(all.begin() + 35, all.end()));

  const OwnedTensor other("other", dtype, {60});
  dropout(space, {.seed = 9, .stream = 5, .rate = 0.5}, x.get(), other.get());
  space.fence();
  EXPECT_NE(values_of(other.get()), all) << "another step, another mask";
}

/// Covers whole packs, draws that begin before the first element, single elements after the last pack, and element
/// numbers beyond 32 bits.
TEST_P(Elementwise, DropoutTakesOneWordForEachElement) {
  const double rate = 0.3;
  const auto dropping = static_cast<std::uint32_t>(std::lround(rate * 0x1p32));
  const std::int64_t count = 1003;
  const OwnedTensor x = test::make_tensor(dtype, {count}, std::vector<double>(count, 1.0)), y("y", dtype, {count});
  const RandomStream random(7, RandomPurpose::dropout, (std::uint64_t{3} << 40) ^ 5);
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{64}, std::int64_t{90},
                                   (std::int64_t{1} << 34) - 8, (std::int64_t{1} << 40) + 3}) {
    dropout(space, {.seed = 7, .stream = std::uint64_t{3} << 40, .step = 5, .first_element = first, .rate = rate},
            x.get(), y.get());
    space.fence();
    const auto values = values_of(y.get());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto number = static_cast<std::uint64_t>(first + i);
      ASSERT_EQ(values[static_cast<std::size_t>(i)] == 0, random.bits(number / 4).word[number % 4] < dropping)
          << first << " + " << i;
    }
  }
}

/// Kept elements are scaled so that the mean stays; neighbours, which share a draw, are independent of each other.
TEST_P(Elementwise, DropoutKeepsTheMeanAndNeighboursAlone) {
  const std::int64_t count = 400'000;
  const OwnedTensor x = test::make_tensor(dtype, {count}, std::vector<double>(count, 1.0)), y("y", dtype, {count});
  for (const double rate : {0.5, 0.1}) {
    dropout(space, {.seed = 3, .stream = 1, .rate = rate}, x.get(), y.get());
    space.fence();
    const auto values = values_of(y.get());
    const double kept = 1 - rate, n = static_cast<double>(count);
    double sum = 0, largest = 0;
    for (const double value : values) sum += value, largest = std::max(largest, value);
    EXPECT_NEAR(largest, 1 / kept, 2 * rounding_error(dtype) + 1e-6);
    EXPECT_NEAR(sum / n / (largest * kept), 1, 5 * std::sqrt(rate / kept / n));
    for (std::size_t distance = 1; distance < 8; ++distance) {
      double both = 0;
      for (std::size_t i = distance; i < values.size(); ++i) both += values[i] > 0 && values[i - distance] > 0 ? 1 : 0;
      EXPECT_NEAR(both / n, kept * kept, 5 * std::sqrt(kept * kept * (1 - kept * kept) * 2 / n)) << distance;
    }
  }
}

TEST_P(Elementwise, DropoutOfRateZeroKeepsAll) {
  const OwnedTensor x = make_filled(dtype, {60}, 1), y("y", dtype, {60});
  dropout(space, {.rate = 0}, x.get(), y.get());
  space.fence();
  EXPECT_EQ(values_of(y.get()), values_of(x.get()));
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise, testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16));

}  // namespace
}  // namespace lockstep
