// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/layer_norm.hpp"

#include <gtest/gtest.h>

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
  // Far from 0, compared with the spread: what differences of sums of squares would not survive.
  auto values = test::filling(1, shape.count());
  for (double& value : values) value += 16;
  const OwnedTensor x = test::make_tensor(dtype, shape, values), dy = test::make_filled(dtype, shape, 2);
  const OwnedTensor weight = test::make_filled(master, {c}, 3), bias = test::make_filled(master, {c}, 4);
  const OwnedTensor y("y", dtype, shape), moments("moments", master, {rows, 2}), dweight("dweight", master, {c}), dbias("dbias", master, {c});
  const OwnedTensor workspace("workspace", DType::u8, {static_cast<std::int64_t>(layer_norm_workspace_bytes(space, dtype, rows, c))});
  for (const auto* tensor : {&y, &moments, &dweight, &dbias, &workspace}) test::poison(tensor->get());
  const auto expected = reference::layer_norm(1e-5, test::values_of(x.get()), test::values_of(weight.get()), test::values_of(bias.get()),
                                              test::values_of(dy.get()));

  layer_norm_forward(space, 1e-5, x.get(), weight.get(), bias.get(), y.get(), moments.get());
  layer_norm_backward_weight(space, x.get(), moments.get(), dy.get(), dweight.get(), dbias.get(), Store::replace, workspace.get());
  layer_norm_backward_weight(space, x.get(), moments.get(), dy.get(), dweight.get(), dbias.get(), Store::add, workspace.get());
  layer_norm_backward_data(space, x.get(), weight.get(), moments.get(), dy.get(), dy.get());  // in place
  space.fence();

  const double sums = dtype == DType::f64 ? 1e-12 : 5e-5, each = sums + 2 * test::rounding_error(dtype);
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected.y), each);
  EXPECT_LT(test::largest_difference(test::values_of(dy.get()), expected.dx), each);
  for (const auto& [got, wanted] : {std::pair(&dweight, expected.dweight), std::pair(&dbias, expected.dbias)}) {
    std::vector<double> twice = wanted;
    for (double& value : twice) value *= 2;
    EXPECT_LT(test::largest_difference(test::values_of(got->get()), twice), sums);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LayerNormTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Shape{5, 7}, Shape{2, 3, 64}, Shape{131, 33}, Shape{1, 1001}, Shape{300, 19})));

}  // namespace
}  // namespace lockstep
