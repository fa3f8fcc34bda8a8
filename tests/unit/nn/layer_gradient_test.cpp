// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nn/layer_factory.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using test::LayerHarness;

struct Case {
  std::string type;
  std::string entry;
  std::vector<Shape> inputs;
  std::int64_t n;
  Activation fused = Activation::none;
};

// Each type of the factory table has at least one (EveryTypeIsChecked); odd sizes, every option.
const Case cases[] = {
    {"linear", "{linear: {features: 7}}", {{5}}, 3},
    {"linear", "{linear: {features: 4, bias: false}}", {{9}}, 5},
    {"linear", "{linear: {features: 1}}", {{1}}, 1},
    {"linear", "{linear: {features: 33}}", {{18}}, 6, Activation::relu},
    {"linear", "{linear: {features: 5, bias: false}}", {{3}}, 7, Activation::relu},
    {"linear", "{linear: {features: 7}}", {{4, 5}}, 3},
    {"linear", "{linear: {features: 3, bias: false}}", {{3, 6}}, 2, Activation::relu},
    {"conv2d", "{conv2d: {filters: 3, kernel: 3}}", {{5, 6, 2}}, 2},
    {"conv2d", "{conv2d: {filters: 4, kernel: 5, padding: same}}", {{6, 5, 3}}, 2, Activation::relu},
    {"conv2d", "{conv2d: {filters: 2, kernel: 4, padding: same}}", {{5, 5, 1}}, 2},
    {"conv2d", "{conv2d: {filters: 5, kernel: 3, stride: 2, padding: 1, bias: false}}", {{7, 9, 2}}, 3},
    {"conv2d", "{conv2d: {filters: 6, kernel: 3, stride: 2, padding: same, groups: 2}}", {{7, 5, 4}}, 2},
    {"conv2d", "{conv2d: {filters: 4, kernel: 3, padding: 1, groups: 4}}", {{5, 4, 4}}, 2, Activation::relu},
    {"conv2d", "{conv2d: {filters: 3, kernel: 1, stride: 2}}", {{4, 5, 2}}, 2},
    {"conv2d", "{conv2d: {filters: 2, kernel: 2, padding: 3}}", {{3, 2, 1}}, 1},
    {"relu", "relu", {{4, 3, 2}}, 3},
    {"max_pool", "{max_pool: {kernel: 2}}", {{6, 5, 3}}, 2},
    {"max_pool", "{max_pool: {kernel: 3, stride: 2, padding: 1}}", {{7, 6, 2}}, 2},
    {"max_pool", "{max_pool: {kernel: 2, stride: 3}}", {{8, 7, 2}}, 1},
    {"avg_pool", "{avg_pool: {kernel: 2}}", {{6, 5, 3}}, 2},
    {"avg_pool", "{avg_pool: {kernel: 3, stride: 1, padding: 1}}", {{5, 4, 2}}, 2},
    {"flatten", "flatten", {{3, 2, 4}}, 2},
    {"dropout", "{dropout: {rate: 0.4}}", {{5, 3}}, 4},
    {"add", "{add: {}}", {{3, 4}, {3, 4}}, 2},
    {"add", "{add: {}}", {{5}, {5}, {5}, {5}}, 3},
    {"embedding", "{embedding: {vocabulary: 5, features: 3}}", {{7}}, 3},
    {"embedding", "{embedding: {vocabulary: 13, features: 37}}", {{1}}, 5},
    {"position_embedding", "{position_embedding: {length: 9}}", {{7, 5}}, 3},
    {"position_embedding", "{position_embedding: {length: 4}}", {{4, 37}}, 2},
    {"attention", "{attention: {heads: 2}}", {{7, 10}}, 3},
    {"attention", "{attention: {heads: 3, causal: false}}", {{19, 9}}, 2},
    {"attention", "{attention: {heads: 1}}", {{1, 4}}, 2},
    {"attention", "{attention: {heads: 2, causal: false}}", {{1, 6}}, 1},
    {"attention", "{attention: {heads: 4}}", {{35, 4}}, 1},
    {"attention", "{attention: {heads: 1, causal: false}}", {{8, 34}}, 1},
    {"lstm", "{lstm: {units: 5}}", {{4, 3}}, 3},
    {"lstm", "{lstm: {units: 35}}", {{3, 2}}, 2},
    {"lstm", "{lstm: {units: 1}}", {{1, 1}}, 1},
    {"lstm", "{lstm: {units: 3}}", {{9, 7}}, 1},
};

TEST(LayerGradient, EveryTypeIsChecked) {
  std::set<std::string_view> checked;
  for (const auto& c : cases) checked.insert(c.type);
  for (const auto& alternative : layer_alternatives())
    EXPECT_TRUE(checked.count(alternative.name)) << "add a case for the layer type " << alternative.name << " above";
  for (const auto& c : cases) EXPECT_EQ(test::parse_layer(c.entry).type, c.type);
}

class LayerGradient : public testing::TestWithParam<std::tuple<ProviderKind, Case>> {};

/// Σ weight·y: its gradient with respect to y is `weight`.
double weighted(LayerHarness& harness, const std::vector<double>& weight) {
  const auto y = harness.forward();
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += weight[i] * y[i];
  return sum;
}

/// Central differences of the above for every element of `tensor`.
std::vector<double> numerical(LayerHarness& harness, const Tensor& tensor, const std::vector<double>& weight) {
  constexpr double step = 1e-6;
  const std::vector<double> values = test::values_of(tensor);
  std::vector<double> gradient;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> moved = values;
    moved[i] = values[i] + step;
    test::set_values(tensor, moved);
    const double above = weighted(harness, weight);
    moved[i] = values[i] - step;
    test::set_values(tensor, moved);
    gradient.push_back((above - weighted(harness, weight)) / (2 * step));
  }
  test::set_values(tensor, values);
  return gradient;
}

TEST_P(LayerGradient, AgreesWithCentralDifferences) {
  const auto& [provider, c] = GetParam();
  LayerHarness harness(c.entry, c.inputs, c.n, {.providers = test::using_provider(provider), .fused = c.fused});
  if (harness.layer().is_view()) {
    EXPECT_EQ(harness.output_shape().count(), harness.x(0).count());
    return;
  }
  const auto weight = test::filling(7, harness.output_shape().count());
  harness.forward();
  const auto gradients = harness.backward(weight);
  for (std::size_t i = 0; i < harness.inputs(); ++i)
    EXPECT_LT(test::largest_difference(gradients.x[i], numerical(harness, harness.x(i), weight)), 1e-7) << "input " << i;
  for (std::size_t i = 0; i < harness.parameters(); ++i)
    EXPECT_LT(test::largest_difference(gradients.parameters[i], numerical(harness, harness.parameter(i), weight)), 1e-7)
        << harness.specs()[i].name;

  // A first layer: no dx, the same parameter gradients; then a second micro-batch that is added.
  harness.forward();
  const auto first = harness.backward(weight, Store::replace, false);
  EXPECT_EQ(first.parameters, gradients.parameters);
  const auto second = harness.backward(weight, Store::add);
  for (std::size_t i = 0; i < harness.parameters(); ++i) {
    auto twice = gradients.parameters[i];
    for (auto& value : twice) value *= 2;
    EXPECT_LT(test::largest_difference(second.parameters[i], twice), 1e-13) << harness.specs()[i].name;
  }
  EXPECT_EQ(second.x, gradients.x);
}

TEST_P(LayerGradient, F32AgreesWithF64) {
  const auto& [provider, c] = GetParam();
  const ProvidersConfig providers = test::using_provider(provider);
  LayerHarness narrow(c.entry, c.inputs, c.n, {.dtype = DType::f32, .providers = providers, .fused = c.fused});
  LayerHarness wide(c.entry, c.inputs, c.n, {.providers = providers, .fused = c.fused});
  if (wide.layer().is_view()) return;
  const auto weight = test::filling(7, wide.output_shape().count());
  EXPECT_LT(test::largest_difference(narrow.forward(), wide.forward()), 2e-5);
  const auto a = narrow.backward(weight), b = wide.backward(weight);
  for (std::size_t i = 0; i < a.x.size(); ++i) EXPECT_LT(test::largest_difference(a.x[i], b.x[i]), 2e-5);
  for (std::size_t i = 0; i < a.parameters.size(); ++i) EXPECT_LT(test::largest_difference(a.parameters[i], b.parameters[i]), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Providers, LayerGradient,
                         testing::Combine(testing::Values(ProviderKind::automatic, ProviderKind::portable), testing::ValuesIn(cases)));

/// Every other provider of the build, where it does the shape; f32, since oneDNN has no f64.
TEST(LayerProviders, AgreeWithThePortableOne) {
  for (const ProviderKind kind : test::provider_kinds())
    for (const DType dtype : {DType::f32, DType::f64})
      for (const auto& c : cases) {
        if (c.type != "linear" && c.type != "conv2d") continue;
        std::unique_ptr<LayerHarness> harness;
        try {
          harness = std::make_unique<LayerHarness>(
              c.entry, c.inputs, c.n, LayerHarness::Options{.dtype = dtype, .providers = test::using_provider(kind), .fused = c.fused});
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), ExitStatus::bad_deck) << error.what();
          EXPECT_NE(kind, ProviderKind::automatic);
          EXPECT_NE(kind, ProviderKind::portable);
          EXPECT_TRUE(dtype == DType::f64 || c.entry.find("groups") != std::string::npos) << error.what();
          continue;
        }
        LayerHarness portable(c.entry, c.inputs, c.n,
                              {.dtype = dtype, .providers = test::using_provider(ProviderKind::portable), .fused = c.fused});
        const std::string what = fmt::format("{} {} {}", provider_names[static_cast<std::size_t>(kind)], name_of(dtype), c.entry);
        const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
        const auto weight = test::filling(7, portable.output_shape().count());
        EXPECT_LT(test::largest_difference(harness->forward(), portable.forward()), tolerance) << what;
        for (const Store store : {Store::replace, Store::add}) {
          const auto a = harness->backward(weight, store), b = portable.backward(weight, store);
          EXPECT_LT(test::largest_difference(a.x[0], b.x[0]), tolerance) << what;
          for (std::size_t i = 0; i < a.parameters.size(); ++i)
            EXPECT_LT(test::largest_difference(a.parameters[i], b.parameters[i]), tolerance) << what << " " << harness->specs()[i].name;
        }
      }
}

TEST(Dropout, EvaluationKeepsEverything) {
  LayerHarness harness("{dropout: {rate: 0.4}}", {{5, 3}}, 4, {});
  EXPECT_EQ(harness.forward(false), test::values_of(harness.x(0)));
  EXPECT_NE(harness.forward(true), test::values_of(harness.x(0)));
}

TEST(MaxPool, EvaluationGivesTheSame) {
  LayerHarness harness("{max_pool: {kernel: 3, stride: 2}}", {{7, 8, 3}}, 2, {});
  EXPECT_EQ(harness.forward(false), harness.forward(true));
}

}  // namespace
}  // namespace lockstep
