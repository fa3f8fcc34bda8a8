// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>

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

INSTANTIATE_TEST_SUITE_P(Types, SoftmaxTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Shape{5, 7}, Shape{2, 3, 64}, Shape{1, 1001}, Shape{9, 1})));

}  // namespace
}  // namespace lockstep
