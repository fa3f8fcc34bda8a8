// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/im2col.hpp"

#include <gtest/gtest.h>

#include "support/fixtures.hpp"

namespace lockstep {

void PrintTo(const DepthColumnsShape& s, std::ostream* out) {
  *out << fmt::format("{}×{}×{}×{}, kernel {}, stride {}, padding {} and {}", s.n, s.depth, s.slice, s.c, s.kernel,
                      s.stride, s.pad_front, s.pad_back);
}

namespace {

const DepthColumnsShape depth_shapes[] = {
    {.n = 2, .depth = 5, .slice = 6, .c = 3, .kernel = 3, .stride = 1, .pad_front = 1, .pad_back = 1},
    {.n = 3, .depth = 7, .slice = 1, .c = 5, .kernel = 2, .stride = 2},  // an edge that no slice of y reaches
    {.n = 1, .depth = 4, .slice = 7, .c = 2, .kernel = 4, .stride = 3, .pad_front = 1, .pad_back = 2},
    {.n = 2, .depth = 6, .slice = 2, .c = 1, .kernel = 1, .stride = 3},  // gaps between windows
    {.n = 1, .depth = 1, .slice = 33, .c = 1, .kernel = 3, .stride = 1, .pad_front = 2, .pad_back = 2},
};

class DepthColumns : public testing::TestWithParam<std::tuple<DType, DepthColumnsShape>> {};

TEST_P(DepthColumns, AgreeWithPlainLoops) {
  const auto& [dtype, s] = GetParam();
  const Shape in{s.n, s.depth, s.slice, s.c}, out{s.n * s.out_depth(), s.slice, s.c * s.kernel};
  const OwnedTensor x = test::make_filled(dtype, in, 1), dcolumns = test::make_filled(dtype, out, 2);
  const OwnedTensor columns("columns", dtype, out), dx("dx", dtype, in);
  test::poison(columns.get());
  test::poison(dx.get());
  depth_columns_forward(ExecSpace(), s, x.get(), columns.get());
  depth_columns_backward(ExecSpace(), s, dcolumns.get(), dx.get());
  ExecSpace().fence();

  const std::vector<double> from = test::values_of(x.get()), gradient = test::values_of(dcolumns.get());
  std::vector<double> expected, sums(from.size());
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.out_depth(); ++o)
      for (std::int64_t place = 0; place < s.slice * s.c; ++place)
        for (std::int64_t k = 0; k < s.kernel; ++k) {
          const std::int64_t z = o * s.stride - s.pad_front + k;
          const auto at = static_cast<std::size_t>((n * s.depth + z) * s.slice * s.c + place);
          const bool inside = z >= 0 && z < s.depth;
          if (inside) sums[at] += gradient[expected.size()];
          expected.push_back(inside ? from[at] : 0);
        }
  EXPECT_EQ(test::values_of(columns.get()), expected);
  const bool narrow = size_of(dtype) == 2;
  EXPECT_LT(test::largest_difference(test::values_of(dx.get()), sums), narrow                ? 1e-2
                                                                       : dtype == DType::f32 ? 1e-6
                                                                                             : 1e-14);
}

INSTANTIATE_TEST_SUITE_P(All, DepthColumns,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::ValuesIn(depth_shapes)));

}  // namespace
}  // namespace lockstep
