// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <gtest/gtest.h>

#include "ops/elementwise/elementwise.hpp"
#include "reference/norm.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

class LayerNormTest : public testing::TestWithParam<std::tuple<DType, Shape>> {};

TEST_P(LayerNormTest, AgreesWithPlainLoops) {
  const auto& [dtype, shape] = GetParam();
  const ExecSpace space;
  const std::int64_t c = shape[-1], rows = shape.count() / c;
  const DType master = master_dtype(dtype);
  // Values far from 0 compared with their spread, for which a difference of sums of squares would lose all digits.
  auto values = test::filling(1, shape.count());
  for (double& value : values) value += 16;
  const OwnedTensor x = test::make_tensor(dtype, shape, values), dy = test::make_filled(dtype, shape, 2);
  const OwnedTensor weight = test::make_filled(master, {c}, 3), bias = test::make_filled(master, {c}, 4);
  const OwnedTensor y("y", dtype, shape), moments("moments", master, {rows, 2}), dweight("dweight", master, {c}),
      dbias("dbias", master, {c});
  const OwnedTensor workspace("workspace", DType::u8,
                              {static_cast<std::int64_t>(layer_norm_workspace_bytes(dtype, rows, c))});
  for (const auto* tensor : {&y, &moments, &dweight, &dbias, &workspace}) test::poison(tensor->get());
  const auto expected = reference::layer_norm(1e-5, test::values_of(x.get()), test::values_of(weight.get()),
                                              test::values_of(bias.get()), test::values_of(dy.get()));

  layer_norm_forward(space, 1e-5, x.get(), weight.get(), bias.get(), y.get(), moments.get());
  layer_norm_backward_weight(space, x.get(), moments.get(), dy.get(), dweight.get(), dbias.get(), Store::replace,
                             workspace.get());
  layer_norm_backward_weight(space, x.get(), moments.get(), dy.get(), dweight.get(), dbias.get(), Store::add,
                             workspace.get());
  const OwnedTensor added = test::make_filled(dtype, shape, 5);
  const std::vector<double> before = test::values_of(added.get());
  layer_norm_backward_data(space, x.get(), weight.get(), moments.get(), dy.get(), added.get(), Store::add);
  layer_norm_backward_data(space, x.get(), weight.get(), moments.get(), dy.get(), dy.get(),
                           Store::replace);  // in place
  space.fence();

  const double sums = dtype == DType::f64 ? 1e-12 : 5e-5, each = sums + 2 * test::rounding_error(dtype);
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected.y), each);
  EXPECT_LT(test::largest_difference(test::values_of(dy.get()), expected.dx), each);
  std::vector<double> expected_sum = expected.dx;
  for (std::size_t i = 0; i < before.size(); ++i) expected_sum[i] += before[i];
  EXPECT_LT(test::largest_difference(test::values_of(added.get()), expected_sum), each);
  for (const auto& [got, wanted] : {std::pair(&dweight, expected.dweight), std::pair(&dbias, expected.dbias)}) {
    std::vector<double> twice = wanted;
    for (double& value : twice) value *= 2;
    EXPECT_LT(test::largest_difference(test::values_of(got->get()), twice),
              2 * sums * std::max(1.0, static_cast<double>(c) / 128));  // the mean's rounding grows with c
  }
}

/// A fused sum and norm gives the same bits as both one after the other.
TEST_P(LayerNormTest, OfASum) {
  const auto& [dtype, shape] = GetParam();
  const ExecSpace space;
  const std::int64_t c = shape[-1];
  const DType master = master_dtype(dtype);
  const OwnedTensor a = test::make_filled(dtype, shape, 1), b = test::make_filled(dtype, shape, 2),
                    weight = test::make_filled(master, {c}, 3), bias = test::make_filled(master, {c}, 4);
  const Shape per_row{shape.count() / c, 2};
  const OwnedTensor x("x", dtype, shape), y("y", dtype, shape), moments("moments", master, per_row);
  const OwnedTensor sum("sum", dtype, shape), y_of_sum("y", dtype, shape), moments_of_sum("moments", master, per_row);
  for (const auto* tensor : {&sum, &y_of_sum, &moments_of_sum}) test::poison(tensor->get());
  add(space, a.get(), b.get(), x.get());
  layer_norm_forward(space, 1e-5, x.get(), weight.get(), bias.get(), y.get(), moments.get());
  add_layer_norm_forward(space, 1e-5, a.get(), b.get(), sum.get(), weight.get(), bias.get(), y_of_sum.get(),
                         moments_of_sum.get());
  space.fence();
  EXPECT_EQ(test::values_of(sum.get()), test::values_of(x.get()));
  EXPECT_EQ(test::values_of(y_of_sum.get()), test::values_of(y.get()));
  EXPECT_EQ(test::values_of(moments_of_sum.get()), test::values_of(moments.get()));
}

INSTANTIATE_TEST_SUITE_P(Types, LayerNormTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Shape{5, 7}, Shape{2, 3, 64}, Shape{131, 33}, Shape{1, 1001},
                                                          Shape{300, 19}, Shape{37, 768}, Shape{6, 1024},
                                                          Shape{9, 1032})));

}  // namespace
}  // namespace lockstep
