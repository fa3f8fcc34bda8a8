// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct GroupNormed {
  std::vector<double> y, dx, dweight, dbias;
};

/// Group norm in plain loops over x [n, places, c].
GroupNormed plain_group_norm(std::int64_t n, std::int64_t places, std::int64_t c, std::int64_t groups,
                             const std::vector<double>& x, const std::vector<double>& weight,
                             const std::vector<double>& bias, const std::vector<double>& dy) {
  const std::int64_t group_c = c / groups;
  const double count = static_cast<double>(places * group_c);
  GroupNormed result{std::vector<double>(x.size()), std::vector<double>(x.size()), std::vector<double>(weight.size()),
                     std::vector<double>(weight.size())};
  for (std::int64_t group = 0; group < n * groups; ++group) {
    const auto for_values = [&](auto f) {
      for (std::int64_t place = 0; place < places; ++place)
        for (std::int64_t j = 0; j < group_c; ++j) {
          const std::int64_t channel = group % groups * group_c + j;
          f(static_cast<std::size_t>((group / groups * places + place) * c + channel),
            static_cast<std::size_t>(channel));
        }
    };
    double mean = 0, variance = 0, level = 0, slope = 0;
    for_values([&](std::size_t i, std::size_t) { mean += x[i] / count; });
    for_values([&](std::size_t i, std::size_t) { variance += (x[i] - mean) * (x[i] - mean) / count; });
    const double inv_std = 1 / std::sqrt(variance + 1e-5);
    for_values([&](std::size_t i, std::size_t k) {
      const double scaled = (x[i] - mean) * inv_std;
      result.y[i] = scaled * weight[k] + bias[k];
      result.dweight[k] += dy[i] * scaled;
      result.dbias[k] += dy[i];
      level += dy[i] * weight[k] / count;
      slope += dy[i] * weight[k] * scaled / count;
    });
    for_values([&](std::size_t i, std::size_t k) {
      result.dx[i] = inv_std * (dy[i] * weight[k] - level - (x[i] - mean) * inv_std * slope);
    });
  }
  return result;
}

class GroupNormTest : public testing::TestWithParam<std::tuple<DType, std::pair<Shape, std::int64_t>>> {};

TEST_P(GroupNormTest, AgreesWithPlainLoops) {
  const auto& [dtype, shape_and_groups] = GetParam();
  const auto& [shape, groups] = shape_and_groups;
  const std::int64_t n = shape[0], c = shape[-1];
  const DType master = master_dtype(dtype);
  // Values far from 0 compared with their spread, for which a difference of sums of squares would lose all digits.
  auto values = test::filling(1, shape.count());
  for (double& value : values) value += 8;
  const OwnedTensor x = test::make_tensor(dtype, shape, values), dy = test::make_filled(dtype, shape, 2);
  const OwnedTensor weight = test::make_filled(master, {c}, 3), bias = test::make_filled(master, {c}, 4);
  const OwnedTensor y("y", dtype, shape), dx("dx", dtype, shape), moments("moments", master, {n, 2, c}),
      dweight("dweight", master, {c}), dbias("dbias", master, {c});
  const auto bytes = group_norm_workspace_bytes(dtype, n, Shape(shape.extents().subspan(1)));
  const OwnedTensor workspace("workspace", DType::u8, {static_cast<std::int64_t>(bytes)});
  for (const auto* tensor : {&y, &dx, &moments, &dweight, &dbias, &workspace}) test::poison(tensor->get());
  const auto expected = plain_group_norm(n, shape.count() / (n * c), c, groups, test::values_of(x.get()),
                                         test::values_of(weight.get()), test::values_of(bias.get()),
                                         test::values_of(dy.get()));

  const ExecSpace space;
  group_norm_forward(space, groups, 1e-5, x.get(), weight.get(), bias.get(), y.get(), moments.get(), workspace.get());
  group_norm_backward(space, groups, x.get(), weight.get(), moments.get(), dy.get(), dx.get(), dweight.get(),
                      dbias.get(), Store::replace, workspace.get());
  group_norm_backward(space, groups, x.get(), weight.get(), moments.get(), dy.get(), {}, dweight.get(), dbias.get(),
                      Store::add, workspace.get());
  space.fence();

  const double sums = dtype == DType::f64 ? 1e-12 : 5e-5, each = sums + 2 * test::rounding_error(dtype);
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected.y), each);
  EXPECT_LT(test::largest_difference(test::values_of(dx.get()), expected.dx), each);
  for (const auto& [got, wanted] : {std::pair(&dweight, expected.dweight), std::pair(&dbias, expected.dbias)}) {
    std::vector<double> twice = wanted;
    for (double& value : twice) value *= 2;
    EXPECT_LT(test::largest_difference(test::values_of(got->get()), twice), sums);
  }

  // Evaluation keeps no moments, and computes the same outputs.
  const std::vector<double> with_moments = test::values_of(y.get());
  group_norm_forward(space, groups, 1e-5, x.get(), weight.get(), bias.get(), y.get(), {}, workspace.get());
  space.fence();
  EXPECT_EQ(test::values_of(y.get()), with_moments);
}

INSTANTIATE_TEST_SUITE_P(
    All, GroupNormTest,
    testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                     testing::Values(std::pair(Shape{3, 5, 7, 6}, 2), std::pair(Shape{2, 300, 35}, 7),
                                     std::pair(Shape{2, 13, 11, 3}, 3), std::pair(Shape{4, 33}, 1),
                                     std::pair(Shape{1, 2, 3, 4, 64}, 1), std::pair(Shape{2, 1000, 2}, 1))));

}  // namespace
}  // namespace lockstep
