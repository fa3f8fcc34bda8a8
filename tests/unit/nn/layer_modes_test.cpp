// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/layer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using test::LayerHarness;

TEST(Dropout, EvaluationKeepsEverything) {
  LayerHarness harness("{dropout: {rate: 0.4}}", {{5, 3}}, 4, {});
  EXPECT_EQ(harness.forward(false), test::values_of(harness.x(0)));
  EXPECT_NE(harness.forward(true), test::values_of(harness.x(0)));
}

/// The mean and the unbiased variance of the values at first, first + c, …
std::pair<double, double> moments(const std::vector<double>& x, std::size_t first, std::size_t c) {
  double mean = 0, variance = 0;
  const double count = static_cast<double>(x.size() / c);
  for (std::size_t i = first; i < x.size(); i += c) mean += x[i] / count;
  for (std::size_t i = first; i < x.size(); i += c) variance += (x[i] - mean) * (x[i] - mean);
  return {mean, count > 1 ? variance / (count - 1) : 0};
}

TEST(BatchNormLayer, SaysWhatIsToBeAddedToTheRunningValues) {
  constexpr std::size_t c = 7, n = 3;
  LayerHarness harness("{batch_norm: {momentum: 0.25}}", {{5, 2, c}}, n, {});
  const auto mean = test::values_of(harness.parameter(2)), variance = test::values_of(harness.parameter(3));
  for (const Store store : {Store::replace, Store::add}) {
    harness.forward();
    const auto added = harness.backward(test::filling(7, harness.output_shape().count()), store).parameters;
    const double pieces = store == Store::add ? 2 : 1;
    for (std::size_t j = 0; j < c; ++j) {
      const auto expected = moments(test::values_of(harness.x(0)), j, c);
      EXPECT_NEAR(added[2][j], pieces * 0.25 * n * (expected.first - mean[j]), 1e-13);
      EXPECT_NEAR(added[3][j], pieces * 0.25 * n * (expected.second - variance[j]), 1e-13);
    }
  }
}

TEST(BatchNormLayer, OneValueHasNoVariance) {
  LayerHarness harness("batch_norm", {{5}}, 1, {});
  EXPECT_LT(test::largest_difference(harness.forward(), test::values_of(harness.parameter(1))), 1e-12);
  const auto gradients = harness.backward(test::filling(7, 5));
  EXPECT_EQ(gradients.x[0], std::vector<double>(5));
  EXPECT_EQ(gradients.parameters[3], std::vector<double>(5)) << "nothing is added to the running variance";
}

TEST(BatchNormLayer, EvaluationReadsTheRunningValues) {
  for (const bool addition : {false, true}) {
    const std::vector<Shape> inputs(addition ? 2 : 1, Shape{3, 4});
    LayerHarness harness("batch_norm", inputs, 3, {.fused = Activation::relu, .addition = addition});
    harness.forward();  // the statistics of this batch must not be used in evaluation
    const auto x = test::values_of(harness.x(0)), y = harness.forward(false);
    std::vector<std::vector<double>> p;
    for (std::size_t i = 0; i < 4; ++i) p.push_back(test::values_of(harness.parameter(i)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t j = i % 4;
      double expected = (x[i] - p[2][j]) / std::sqrt(p[3][j] + 1e-5) * p[0][j] + p[1][j];
      if (addition) expected += test::values_of(harness.x(1))[i];
      EXPECT_NEAR(y[i], std::max(expected, 0.0), 1e-14);
    }
  }
}

TEST(BatchNormLayer, TakesOneAdditionAndThenRelu) {
  const auto make = [] {
    return dynamic_cast<const LayerConfig&>(*test::parse_layer("batch_norm").config).make_layer();
  };
  const auto plain = make();
  EXPECT_EQ(plain->traits().max_inputs, 1u);
  EXPECT_FALSE(plain->fuse(Activation::tanh));
  EXPECT_TRUE(plain->traits().is_cheap);
  EXPECT_TRUE(plain->fuse(Activation::relu));
  EXPECT_FALSE(plain->fuse(Activation::relu));
  EXPECT_FALSE(plain->fuse_addition()) << "relu comes after the addition";
  EXPECT_FALSE(plain->traits().backward_reads_output);
  const auto residual = make();
  EXPECT_TRUE(residual->fuse_addition());
  EXPECT_FALSE(residual->fuse_addition());
  EXPECT_TRUE(residual->fuse(Activation::relu));
  EXPECT_EQ(residual->traits().max_inputs, 2u);
  EXPECT_TRUE(residual->traits().backward_reads_output);
  EXPECT_TRUE(residual->traits().passes_gradient[1]);
  EXPECT_FALSE(residual->traits().passes_gradient[0]);
  EXPECT_FALSE(residual->traits().is_cheap);
}

TEST(MaxPool, EvaluationGivesTheSame) {
  LayerHarness harness("{max_pool: {kernel: 3, stride: 2}}", {{7, 8, 3}}, 2, {});
  EXPECT_EQ(harness.forward(false), harness.forward(true));
}

}  // namespace
}  // namespace lockstep
