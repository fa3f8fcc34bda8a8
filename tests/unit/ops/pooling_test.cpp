// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <limits>

#include "reference/pooling.hpp"
#include "support/fixtures.hpp"

namespace lockstep {

void PrintTo(PoolingKind kind, std::ostream* out) { *out << (kind == PoolingKind::max ? "max" : "average"); }

void PrintTo(const PoolingShape& s, std::ostream* out) {
  *out << fmt::format("{}×{}×{}×{}", s.n, s.h, s.w, s.c);
  for (const auto& [kernel, stride, padding] : {s.vertical, s.horizontal})
    *out << fmt::format(", kernel {}, stride {}, padding {}", kernel, stride, padding);
}

namespace {

PoolingShape square(const Shape& x, const PoolingWindows& windows) {
  return {x[0], x[1], x[2], x[3], windows, windows};
}

const PoolingShape pooling_shapes[] = {
    square({3, 8, 6, 5}, {.kernel = 2, .stride = 2}),
    square({2, 7, 5, 1}, {.kernel = 2, .stride = 2}),  // an edge that no window reaches
    square({1, 9, 11, 3}, {.kernel = 3, .stride = 2, .padding = 1}),
    square({2, 6, 7, 17}, {.kernel = 3, .stride = 1, .padding = 1}),  // windows overlap
    square({2, 10, 9, 2}, {.kernel = 2, .stride = 3}),                // gaps between windows
    square({1, 5, 5, 4}, {.kernel = 5, .stride = 1, .padding = 2}),
    square({1, 1, 1, 33}, {.kernel = 1, .stride = 1}),
    square({1, 40, 33, 2}, {.kernel = 16, .stride = 5, .padding = 8}),
    // Channels that fill packs.
    square({2, 7, 10, 8}, {.kernel = 2, .stride = 2}),
    square({2, 8, 9, 8}, {.kernel = 3, .stride = 2, .padding = 1}),
    square({1, 7, 6, 16}, {.kernel = 1, .stride = 2}),
    square({1, 9, 8, 8}, {.kernel = 5, .stride = 2, .padding = 2}),
    square({1, 6, 5, 8}, {.kernel = 4, .stride = 2, .padding = 1}),
    square({1, 6, 7, 8}, {.kernel = 3, .stride = 1, .padding = 1}),
    {1, 6, 9, 8, {.kernel = 2, .stride = 2}, {.kernel = 3, .stride = 1}},
    {2, 7, 9, 3, {.kernel = 3, .stride = 2, .padding = 1}, {}},
    {1, 1, 600, 2, {}, {.kernel = 256, .stride = 70, .padding = 100}},
    {2, 6, 11, 5, {.kernel = 2, .stride = 1}, {.kernel = 5, .stride = 3, .padding = 2}},
};

class Pooling : public testing::TestWithParam<std::tuple<PoolingKind, DType, PoolingShape>> {};

TEST_P(Pooling, AgreesWithPlainLoops) {
  const auto& [kind, dtype, s] = GetParam();
  const ExecSpace space;
  const Shape in{s.n, s.h, s.w, s.c}, out{s.n, s.out_h(), s.out_w(), s.c};
  const OwnedTensor x = test::make_filled(dtype, in, 1), dy = test::make_filled(dtype, out, 2);
  const OwnedTensor y("y", dtype, out), dx("dx", dtype, in), winner("winner", DType::u8, out);
  test::poison(y.get());
  test::poison(dx.get());
  const auto expected = reference::pool(kind, s, test::filling(1, in.count()), test::filling(2, out.count()));

  pooling_forward(space, kind, s, x.get(), y.get(), kind == PoolingKind::max ? winner.get() : Tensor{});
  pooling_backward(space, kind, s, kind == PoolingKind::max ? winner.get() : Tensor{}, dy.get(), dx.get());
  space.fence();
  const double tolerance = dtype == DType::f64 ? 1e-14 : 2e-6;
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected.y), tolerance);
  EXPECT_LT(test::largest_difference(test::values_of(dx.get()), expected.dx), tolerance);
  if (kind == PoolingKind::max) {
    const auto places = test::bytes_of(winner.get());
    for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(int{places[i]}, expected.winner[i]) << i;
    // Evaluation passes no tensor for the winners.
    test::poison(y.get());
    pooling_forward(space, kind, s, x.get(), y.get(), Tensor{});
    space.fence();
    EXPECT_EQ(test::values_of(y.get()), expected.y);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Pooling,
                         testing::Combine(testing::Values(PoolingKind::max, PoolingKind::average),
                                          testing::Values(DType::f32, DType::f64), testing::ValuesIn(pooling_shapes)));

TEST(MaxPooling, TheFirstOfEqualOnesWins) {
  const PoolingShape s = square({1, 2, 4, 1}, {.kernel = 2, .stride = 2});
  const OwnedTensor x = test::make_tensor(DType::f32, {1, 2, 4, 1}, {0, 0, -1, 3, 0, 0, 3, 3});
  const OwnedTensor y("y", DType::f32, {1, 1, 2, 1}), winner("winner", DType::u8, {1, 1, 2, 1});
  pooling_forward(ExecSpace(), PoolingKind::max, s, x.get(), y.get(), winner.get());
  ExecSpace().fence();
  EXPECT_EQ(test::bytes_of(winner.get()), (std::vector<std::uint8_t>{0, 1}));
}

TEST(MaxPooling, NanWins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const PoolingShape s = square({1, 2, 2, 2}, {.kernel = 2, .stride = 2});
  const OwnedTensor x = test::make_tensor(DType::f64, {1, 2, 2, 2}, {nan, 1, 5, nan, 7, 3, 6, 9});
  const OwnedTensor y("y", DType::f64, {1, 1, 1, 2}), winner("winner", DType::u8, {1, 1, 1, 2});
  pooling_forward(ExecSpace(), PoolingKind::max, s, x.get(), y.get(), winner.get());
  ExecSpace().fence();
  for (const double value : test::values_of(y.get())) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace lockstep
