// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

TEST(PositionWaves, AreThoseOfThePaper) {
  for (const std::int64_t width : {6, 7})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::int64_t length = 5;
      const OwnedTensor table("table", dtype, {length, width});
      position_waves(ExecSpace(), table.get());
      ExecSpace().fence();
      const auto values = test::values_of(table.get());
      for (std::int64_t t = 0; t < length; ++t)
        for (std::int64_t j = 0; j < width; ++j) {
          const double angle = static_cast<double>(t) / std::pow(10000.0, static_cast<double>(j / 2 * 2) / width);
          EXPECT_NEAR(values[static_cast<std::size_t>(t * width + j)], j % 2 == 0 ? std::sin(angle) : std::cos(angle),
                      dtype == DType::f32 ? 1e-7 : 1e-15);
        }
    }
}

TEST(Rotate, TurnsQueriesAndKeysAndBack) {
  const std::int64_t n = 3, length = 5, heads = 2, width = 6, pairs = width / 2, row = 3 * heads * width;
  const double base = 100;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const double rounding = dtype == DType::f64    ? 1e-15
                            : dtype == DType::f32  ? 1e-6
                            : dtype == DType::bf16 ? 0.02
                                                   : 2e-3;
    const OwnedTensor table("table", master_dtype(dtype), {length, width});
    const OwnedTensor qkv = test::make_filled(dtype, {n, length, row}, 1);
    const auto given = test::values_of(qkv.get());
    rotary_waves(ExecSpace(), base, table.get());
    rotate(ExecSpace(), Rotation::forward, heads, table.get(), qkv.get());
    ExecSpace().fence();
    auto expected = given;
    for (std::int64_t at = 0; at < n * length; ++at)
      for (std::int64_t head = 0; head < 2 * heads; ++head)  // the heads of the queries, then those of the keys
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double angle = static_cast<double>(at % length) * std::pow(base, -2.0 * static_cast<double>(i) / width);
          const auto a = static_cast<std::size_t>(at * row + head * width + i), b = a + pairs;
          expected[a] = given[a] * std::cos(angle) - given[b] * std::sin(angle);
          expected[b] = given[b] * std::cos(angle) + given[a] * std::sin(angle);
        }
    EXPECT_LT(test::largest_difference(test::values_of(qkv.get()), expected), rounding);
    rotate(ExecSpace(), Rotation::inverse, heads, table.get(), qkv.get());
    ExecSpace().fence();
    EXPECT_LT(test::largest_difference(test::values_of(qkv.get()), given), 2 * rounding);
  }
}

}  // namespace
}  // namespace lockstep
