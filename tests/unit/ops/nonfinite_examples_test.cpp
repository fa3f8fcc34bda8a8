// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

std::vector<std::int32_t> flags_of(const Tensor& inputs, const Tensor& tables = {}) {
  const OwnedTensor flags("flags", DType::i32, {inputs.shape[0]});
  flag_nonfinite_examples(ExecSpace(), inputs, tables, flags.get());
  std::vector<std::int32_t> found(static_cast<std::size_t>(inputs.shape[0]));
  copy_to_host(ExecSpace(), flags.get(), found.data());
  return found;
}

TEST(NonfiniteExamples, AreFlaggedWhereverTheNumberIs) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::int64_t numbers : {1, 31, 33, 1000}) {
      std::vector<double> values = test::filling(3, 4 * numbers);
      EXPECT_EQ(flags_of(test::make_tensor(dtype, {4, numbers}, values).get()),
                (std::vector<std::int32_t>{0, 0, 0, 0}));
      values[static_cast<std::size_t>(numbers)] = infinity;     // the first of example 1
      values[static_cast<std::size_t>(4 * numbers) - 1] = nan;  // the last of example 3
      EXPECT_EQ(flags_of(test::make_tensor(dtype, {4, numbers}, values).get()), (std::vector<std::int32_t>{0, 1, 0, 1}))
          << numbers << " numbers an example";
    }
}

TEST(NonfiniteExamples, AreThoseWithRowsThatATableLacks) {
  const std::vector<std::int64_t> rows{0, 4, 5};
  const OwnedTensor tables("tables", DType::i64, {3});
  copy_from_host(ExecSpace(), rows.data(), tables.get());
  const OwnedTensor inputs = test::make_tensor(
      DType::f32, {5, 3}, {-7, 3.4, 4, /**/ 0, 4, 0, /**/ 0, 0, -1, /**/ 1e30, 0, 4.4, /**/ 0, 3.6, 0});
  EXPECT_EQ(flags_of(inputs.get(), tables.get()), (std::vector<std::int32_t>{0, 1, 1, 0, 1}));
}

TEST(NonfiniteExamples, SpoilTheirRowsAlone) {
  const std::vector<std::int32_t> bad{0, 1, 0};
  const OwnedTensor flags("flags", DType::i32, {3});
  copy_from_host(ExecSpace(), bad.data(), flags.get());
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const OwnedTensor outputs = test::make_filled(dtype, {4, 7}, 5);  // rows 1 to 4 of 6, two of each example
    const std::vector<double> before = test::values_of(outputs.get());
    spoil_flagged_examples(ExecSpace(), flags.get(), 1, 2, outputs.get());
    const std::vector<double> after = test::values_of(outputs.get());
    for (std::size_t i = 0; i < after.size(); ++i) {
      const std::size_t row = 1 + i / 7;
      if (row == 2 || row == 3) EXPECT_TRUE(std::isnan(after[i])) << i;
      else EXPECT_EQ(after[i], before[i]) << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
