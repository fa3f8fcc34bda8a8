// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/copies.hpp"
#include "ops/image/image_changes.hpp"

#include <gtest/gtest.h>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

class Normalize : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {};

TEST_P(Normalize, ScalesAndShiftsByChannel) {
  const auto& [dtype, constants] = GetParam();
  const Shape shape{5, 3, 7, 3};
  const OwnedTensor scale = test::make_filled(dtype, {constants}, 1), shift = test::make_filled(dtype, {constants}, 2);
  const auto a = test::values_of(scale.get()), b = test::values_of(shift.get());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(37 * i);
  const OwnedTensor u8("u8", DType::u8, shape), f32 = test::make_filled(DType::f32, shape, 3),
                                                f64 = test::make_filled(DType::f64, shape, 3), y("y", dtype, shape);
  copy_from_host(ExecSpace(), bytes.data(), u8.get());

  for (const Tensor& raw : {u8.get(), f32.get(), f64.get()}) {
    const bool from_bytes = raw.dtype == DType::u8;
    test::poison(y.get());
    normalize(ExecSpace(), raw, scale.get(), shift.get(), y.get());
    ExecSpace().fence();
    const auto x = test::filling(3, shape.count());
    std::vector<double> expected;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t c = constants == 1 ? 0 : i % 3;
      expected.push_back(a[c] * (from_bytes ? bytes[i] : x[i]) + b[c]);
    }
    EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected), dtype == DType::f64 ? 1e-15 : 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Normalize,
                         testing::Combine(testing::Values(DType::f32, DType::f64), testing::Values(1, 3)));

TEST(Convert, KeepsTheNumbers) {
  const OwnedTensor x = test::make_filled(DType::f32, {97}, 3), y("y", DType::f64, {97});
  convert(ExecSpace(), x.get(), y.get());
  ExecSpace().fence();
  EXPECT_EQ(test::values_of(y.get()), test::filling(3, 97));
}

TEST(Convert, AddsThemToOthers) {
  const OwnedTensor x = test::make_filled(DType::bf16, {97}, 3), y = test::make_filled(DType::f32, {97}, 4);
  const auto added = test::values_of(x.get());
  auto expected = test::values_of(y.get());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
  add_converted(ExecSpace(), x.get(), y.get());
  ExecSpace().fence();
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected), 1e-6);
}

}  // namespace
}  // namespace lockstep
