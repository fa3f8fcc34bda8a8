// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/reduction.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

TEST(SumOfSquares, AgreesWithAPlainLoop) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {1, 15, 16, 17, 1000, 16384, 16385, 100003}) {
      const OwnedTensor x = test::make_filled(dtype, {count}, 4);
      const OwnedTensor scratch("scratch", DType::f64, {sum_of_squares_scratch(count)});
      double expected = 0;
      for (const double value : test::filling(4, count)) expected += value * value;
      EXPECT_NEAR(sum_of_squares(ExecSpace(), x.get(), scratch.get()), expected, 1e-12 * expected + 1e-300) << count;
    }
}

TEST(SumOfSquares, OfF32IsAccumulatedInF64) {
  const std::int64_t count = 1 << 20;
  const OwnedTensor x = test::make_tensor(DType::f32, {count},
                                          std::vector<double>(static_cast<std::size_t>(count), 0.1));
  const OwnedTensor scratch("scratch", DType::f64, {sum_of_squares_scratch(count)});
  const double one = static_cast<double>(0.1F) * static_cast<double>(0.1F);
  EXPECT_NEAR(sum_of_squares(ExecSpace(), x.get(), scratch.get()) / (one * static_cast<double>(count)), 1.0, 1e-11);
}

TEST(CountNonfinite, FindsEachOne) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const OwnedTensor result("result", DType::f64, {1});
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {1, 100, 16384, 40001}) {
      auto values = test::filling(4, count, 1e30);
      const auto found = [&] {
        const OwnedTensor x = test::make_tensor(dtype, {count}, values);
        count_nonfinite(ExecSpace(), x.get(), result.get());
        ExecSpace().fence();
        return test::values_of(result.get())[0];
      };
      EXPECT_EQ(found(), 0);
      values.back() = nan;
      EXPECT_EQ(found(), 1);
      values.front() = -infinity;
      values[values.size() / 2] = infinity;
      EXPECT_EQ(found(), count == 1 ? 1 : 3);
    }
}

TEST(SumOfSquares, OfNothing) {
  const OwnedTensor scratch("scratch", DType::f64, {sum_of_squares_scratch(0)});
  EXPECT_EQ(sum_of_squares(ExecSpace(), Tensor{nullptr, DType::f32, {0}}, scratch.get()), 0.0);
}

}  // namespace
}  // namespace lockstep
