// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/copies.hpp"

#include <gtest/gtest.h>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct GridCase {
  const char* name;
  std::vector<StridedGrid::Axis> axes;
  std::int64_t x_first = 0, y_first = 0;

  StridedGrid grid() const {
    StridedGrid result;
    for (const auto& [extent, x_step, y_step] : axes) result.add(extent, x_step, y_step);
    result.x_first = x_first;
    result.y_first = y_first;
    return result;
  }
  friend void PrintTo(const GridCase& c, std::ostream* out) { *out << c.name; }
};

/// Calls visit(place in x, place in y) for all points, the last axis running fastest.
template <class Visit>
void for_points(const GridCase& c, std::size_t axis, std::int64_t x, std::int64_t y, const Visit& visit) {
  if (axis == c.axes.size()) return visit(static_cast<std::size_t>(x), static_cast<std::size_t>(y));
  for (std::int64_t i = 0; i < c.axes[axis].extent; ++i)
    for_points(c, axis + 1, x + i * c.axes[axis].x_step, y + i * c.axes[axis].y_step, visit);
}

constexpr std::int64_t count = 5000;  // of the numbers of x, and of y

const GridCase copies[] = {
    {"a number", {{1, 0, 0}}, 3, 4},
    {"a range", {{131, 1, 1}}, 7, 0},
    {"rows that are one range", {{5, 21, 21}, {3, 7, 7}, {7, 1, 1}}},
    {"a transpose", {{3, 35, 35}, {7, 1, 5}, {5, 7, 1}}},
    {"part of wider rows", {{9, 40, 11}, {11, 1, 1}}, 13, 2},
    {"six axes", {{2, 720, 720}, {3, 1, 240}, {4, 3, 60}, {5, 12, 12}, {3, 60, 4}, {4, 180, 1}}},
    {"one number for many", {{6, 5, 35}, {7, 0, 5}, {5, 1, 1}}},
};

class Strided : public testing::TestWithParam<std::tuple<DType, GridCase>> {
 protected:
  const DType dtype = std::get<0>(GetParam());
  const GridCase& given = std::get<1>(GetParam());
  const std::vector<double> x = test::rounded(dtype, test::filling(1, count));
};

TEST_P(Strided, CopyIsThatOfPlainLoops) {
  for (const double factor : {1.0, 0.25}) {
    std::vector<double> expected = test::filling(2, count, 0.5);
    for_points(given, 0, given.x_first, given.y_first,
               [&](std::size_t from, std::size_t to) { expected[to] = factor * x[from]; });
    const OwnedTensor from = test::make_tensor(dtype, {count}, x), to = test::make_filled(dtype, {count}, 2, 0.5);
    strided_copy(ExecSpace(), given.grid(), from.get(), to.get(), factor);
    ExecSpace().fence();
    EXPECT_EQ(test::values_of(to.get()), test::rounded(dtype, expected));
  }
}

/// Sums in the opposite direction, from y to x: the numbers of y that were copied from one number of x are added up.
TEST_P(Strided, SumIsThatOfPlainLoops) {
  std::vector<double> sums(count), expected = test::filling(2, count, 0.5);
  for_points(given, 0, given.x_first, given.y_first, [&](std::size_t to, std::size_t from) { sums[to] += x[from]; });
  for_points(given, 0, given.x_first, given.y_first, [&](std::size_t to, std::size_t) { expected[to] = sums[to] / 4; });
  const OwnedTensor from = test::make_tensor(dtype, {count}, x), to = test::make_filled(dtype, {count}, 2, 0.5);
  strided_sum(ExecSpace(), given.grid().reversed(), 0.25, from.get(), to.get());
  ExecSpace().fence();
  EXPECT_LT(test::largest_difference(test::values_of(to.get()), test::rounded(dtype, expected)),
            std::max(1e-14, 2 * test::rounding_error(dtype)));
}

INSTANTIATE_TEST_SUITE_P(All, Strided,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::ValuesIn(copies)));

/// Sums over several axes, one of which is longer than a block of the sum.
TEST(StridedSum, OfLongAxes) {
  StridedGrid grid;
  grid.add(2, 1995, 3);
  grid.add(133, 15, 0);
  grid.add(3, 5, 1);
  grid.add(5, 1, 0);
  const std::vector<double> x = test::filling(1, 2 * 1995);
  std::vector<double> expected(6);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i / 1995 * 3 + i / 5 % 3] += x[i];
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OwnedTensor from = test::make_tensor(dtype, {2, 1995}, x), to("y", dtype, {6});
    test::poison(to.get());
    strided_sum(ExecSpace(), grid, 1, from.get(), to.get());
    ExecSpace().fence();
    EXPECT_LT(test::largest_difference(test::values_of(to.get()), expected), dtype == DType::f64 ? 1e-13 : 1e-5);
  }
}

}  // namespace
}  // namespace lockstep
