// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::rounded;
using test::values_of;

class GeluByTanh : public testing::TestWithParam<DType> {
 protected:
  const ExecSpace space;
  const DType dtype = GetParam();

  std::vector<double> slopes_at(const std::vector<double>& values) const {
    const Shape all{static_cast<std::int64_t>(values.size())};
    const OwnedTensor x = test::make_tensor(dtype, all, values), dx("dx", dtype, all),
                      dy = test::make_tensor(dtype, all, std::vector<double>(values.size(), 1.0));
    pointwise_backward(space, Pointwise::gelu_tanh, 0, x.get(), dy.get(), dx.get());
    space.fence();
    return values_of(dx.get());
  }
};

TEST_P(GeluByTanh, SlopeIsThatOfTheFormula) {
  std::vector<double> values{0, -0.0, 1e-30, -1e-30};
  for (double value = -12; value < 12; value += 1.0 / 1024) values.push_back(value);
  values = rounded(dtype, values);
  std::vector<double> expected;
  for (const double x : values) {
    const double root = std::sqrt(2 / M_PI), t = std::tanh(root * (x + 0.044715 * x * x * x));
    expected.push_back(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x));
  }
  EXPECT_LT(test::largest_difference(slopes_at(values), expected),
            test::rounding_error(dtype) + (dtype == DType::f64 ? 1e-15 : 4e-6))
      << "1 − tanh² has few digits where tanh is close to 1";
}

TEST_P(GeluByTanh, SlopeFarAwayIsItsLimit) {
  const double largest = dtype == DType::f16 ? 65504 : dtype == DType::f64 ? 1.79e308 : 3.3e38;
  std::vector<double> values;
  for (double x = 16; x < largest; x *= 1.9) values.push_back(x);
  values.insert(values.end(), {largest, INFINITY});
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  const std::vector<double> slopes = slopes_at(rounded(dtype, values));
  for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_EQ(slopes[i], i < count ? 1 : 0) << values[i];
}

TEST_P(GeluByTanh, SlopeOfWhatIsNotANumberIsNone) {
  for (const double slope : slopes_at(std::vector<double>(37, NAN))) EXPECT_TRUE(std::isnan(slope));
}

INSTANTIATE_TEST_SUITE_P(, GeluByTanh, testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16));

}  // namespace
}  // namespace lockstep
