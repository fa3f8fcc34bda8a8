// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss.hpp"

#include <gtest/gtest.h>

#include "reference/loss.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::filling;
using test::make_filled;
using test::values_of;

struct Case {
  std::int64_t n, k;
  double smoothing, scale;
};

class LossOps : public testing::TestWithParam<std::tuple<DType, Case>> {
 protected:
  const ExecSpace space;
  const DType dtype = std::get<0>(GetParam());
  const Case c = std::get<1>(GetParam());
  const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
  const OwnedTensor dy{"dy", dtype, {c.n, c.k}}, scratch{"scratch", DType::f64, {c.n, 2}}, sums{"sums", DType::f64, {2}};
};

TEST_P(LossOps, CrossEntropy) {
  const OwnedTensor logits = make_filled(dtype, {c.n, c.k}, 1, c.scale);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < c.n; ++i) targets.push_back(static_cast<std::int32_t>((5 * i + 3) % c.k));
  const OwnedTensor classes = test::make_classes(targets);
  const auto expected = reference::cross_entropy(c.smoothing, static_cast<std::size_t>(c.k), filling(1, c.n * c.k, c.scale), targets);

  softmax_cross_entropy(space, c.smoothing, logits.get(), classes.get(), dy.get(), scratch.get(), sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(values_of(sums.get()), {expected.loss, expected.correct}), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), expected.gradient), tolerance);

  // Without a gradient, and adding to the sums.
  softmax_cross_entropy(space, c.smoothing, logits.get(), classes.get(), Tensor{}, scratch.get(), sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(values_of(sums.get()), {2 * expected.loss, 2 * expected.correct}), tolerance);
}

TEST_P(LossOps, SquaredError) {
  const OwnedTensor y = make_filled(dtype, {c.n, c.k}, 1, c.scale), t = make_filled(dtype, {c.n, c.k}, 2, c.scale);
  const auto expected = reference::squared_error(static_cast<std::size_t>(c.k), filling(1, c.n * c.k, c.scale), filling(2, c.n * c.k, c.scale));
  mean_squared_error(space, y.get(), t.get(), dy.get(), scratch.get(), sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(values_of(sums.get()), {expected.loss, 0}), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), expected.gradient), tolerance);
}

// Logits of ±1000 overflow a careless softmax.
INSTANTIATE_TEST_SUITE_P(Sizes, LossOps,
                         testing::Combine(testing::Values(DType::f32, DType::f64),
                                          testing::Values(Case{1, 1, 0, 1}, Case{13, 10, 0, 3}, Case{7, 3, 0.1, 1},
                                                          Case{5, 101, 0.5, 10}, Case{3, 17, 0, 1000}, Case{4, 6, 1, 2})));

}  // namespace
}  // namespace lockstep
