// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <set>

#include "nn/layer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using test::LayerHarness;

struct LayerCase {
  std::string type;
  std::string entry;
  std::vector<Shape> inputs;
  std::int64_t n;
  Activation fused = Activation::none;
  bool addition = false;

  friend void PrintTo(const LayerCase& c, std::ostream* out) {
    *out << c.entry << " of " << c.n << " ×";
    for (const Shape& shape : c.inputs) *out << ' ' << testing::PrintToString(shape);
    if (c.addition) *out << " with an addition";
    if (c.fused != Activation::none) *out << " with " << testing::PrintToString(c.fused);
  }
};

// Every type of the factory table has at least one case (EveryTypeIsChecked), with odd sizes and every option.
const LayerCase layer_cases[] = {
    {"linear", "{linear: {features: 7}}", {{5}}, 3},
    {"linear", "{linear: {features: 4, bias: false}}", {{9}}, 5},
    {"linear", "{linear: {features: 1}}", {{1}}, 1},
    {"linear", "{linear: {features: 33}}", {{18}}, 6, Activation::relu},
    {"linear", "{linear: {features: 5, bias: false}}", {{3}}, 7, Activation::relu},
    {"linear", "{linear: {features: 7}}", {{4, 5}}, 3},
    {"linear", "{linear: {features: 3, bias: false}}", {{3, 6}}, 2, Activation::relu},
    {"linear", "{linear: {features: 17}}", {{6}}, 5, Activation::tanh},
    {"linear", "{linear: {features: 5, bias: false}}", {{7}}, 3, Activation::sigmoid},
    {"conv2d", "{conv2d: {filters: 3, kernel: 3}}", {{5, 6, 2}}, 2, Activation::tanh},
    {"conv2d", "{conv2d: {filters: 5, kernel: 2, bias: false}}", {{4, 5, 3}}, 3, Activation::sigmoid},
    {"conv2d", "{conv2d: {filters: 3, kernel: 3}}", {{5, 6, 2}}, 2},
    {"conv2d", "{conv2d: {filters: 4, kernel: 5, padding: same}}", {{6, 5, 3}}, 2, Activation::relu},
    {"conv2d", "{conv2d: {filters: 2, kernel: 4, padding: same}}", {{5, 5, 1}}, 2},
    {"conv2d", "{conv2d: {filters: 5, kernel: 3, stride: 2, padding: 1, bias: false}}", {{7, 9, 2}}, 3},
    {"conv2d", "{conv2d: {filters: 6, kernel: 3, stride: 2, padding: same, groups: 2}}", {{7, 5, 4}}, 2},
    {"conv2d", "{conv2d: {filters: 4, kernel: 3, padding: 1, groups: 4}}", {{5, 4, 4}}, 2, Activation::relu},
    {"conv2d", "{conv2d: {filters: 3, kernel: 1, stride: 2}}", {{4, 5, 2}}, 2},
    {"conv2d", "{conv2d: {filters: 2, kernel: 2, padding: 3}}", {{3, 2, 1}}, 1},
    {"conv1d", "{conv1d: {filters: 3, kernel: 3}}", {{7, 2}}, 3, Activation::relu},
    {"conv1d", "{conv1d: {filters: 4, kernel: 4, stride: 2, padding: same, groups: 2, bias: false}}", {{9, 6}}, 2},
    {"conv1d", "{conv1d: {filters: 2, kernel: 5, stride: 3, padding: 4}}", {{2, 3}}, 2},
    {"conv3d", "{conv3d: {filters: 3, kernel: 2}}", {{3, 4, 2, 2}}, 2, Activation::tanh},
    {"conv3d", "{conv3d: {filters: 2, kernel: 3, stride: 2, padding: 1, bias: false}}", {{5, 4, 3, 3}}, 2},
    {"conv3d", "{conv3d: {filters: 4, kernel: 4, padding: same, groups: 2}}", {{3, 2, 3, 4}}, 1},
    {"conv3d", "{conv3d: {filters: 2, kernel: 1, stride: 3}}", {{4, 5, 2, 3}}, 3},
    {"conv_transpose2d", "{conv_transpose2d: {filters: 3, kernel: 2, stride: 2}}", {{3, 4, 5}}, 2},
    {"conv_transpose2d",
     "{conv_transpose2d: {filters: 4, kernel: 3, stride: 2, padding: 1, output_padding: 1, bias: false}}",
     {{3, 2, 3}},
     3,
     Activation::tanh},
    {"conv_transpose2d", "{conv_transpose2d: {filters: 6, kernel: 3, groups: 2}}", {{2, 3, 4}}, 2, Activation::relu},
    {"conv_transpose2d", "{conv_transpose2d: {filters: 2, kernel: 1, stride: 3, output_padding: 2}}", {{2, 3, 3}}, 1},
    {"batch_norm", "batch_norm", {{3, 5, 7}}, 4},
    {"batch_norm", "{batch_norm: {momentum: 0.3, epsilon: 0.01, zero_gamma: true}}", {{9}}, 5},
    {"batch_norm", "batch_norm", {{35, 33}}, 3, Activation::relu},
    {"batch_norm", "batch_norm", {{4, 3, 16}, {4, 3, 16}}, 3, Activation::none, true},
    {"batch_norm", "{batch_norm: {epsilon: 0.001}}", {{5, 3, 6}, {5, 3, 6}}, 3, Activation::relu, true},
    {"batch_norm", "batch_norm", {{3, 2}}, 1},
    {"layer_norm", "layer_norm", {{11}}, 3},
    {"layer_norm", "{layer_norm: {epsilon: 0.01}}", {{3, 5, 37}}, 2},
    {"layer_norm", "layer_norm", {{35, 64}}, 2},
    {"rms_norm", "rms_norm", {{11}}, 3},
    {"rms_norm", "{rms_norm: {epsilon: 0.01}}", {{3, 5, 37}}, 2},
    {"group_norm", "group_norm: 3", {{4, 5, 6}}, 3},
    {"group_norm", "{group_norm: {groups: 1, epsilon: 0.01}}", {{7, 5}}, 2},
    {"group_norm", "group_norm: 35", {{3, 2, 2, 35}}, 1},
    {"group_norm", "group_norm: 2", {{12}}, 3},
    {"upsample", "upsample: 2", {{3, 4, 5}}, 2},
    {"upsample", "{upsample: {factor: 3}}", {{2, 1, 2}}, 1},
    {"relu", "relu", {{4, 3, 2}}, 3},
    {"gelu", "gelu", {{7, 5}}, 3},
    {"gelu", "gelu: tanh", {{7, 5}}, 3},
    {"silu", "silu", {{7, 5}}, 3},
    {"leaky_relu", "leaky_relu: 0.2", {{4, 3, 2}}, 3},
    {"elu", "{elu: {alpha: 0.7}}", {{4, 3, 2}}, 3},
    {"multiply", "{multiply: {}}", {{3, 4}, {3, 4}}, 2},
    {"sequence", "sequence", {{3, 2, 4}}, 2},
    {"global_avg_pool", "global_avg_pool", {{5, 7}}, 3},
    {"tanh", "tanh", {{4, 3, 2}}, 3},
    {"sigmoid", "sigmoid", {{5, 3}}, 3},
    {"softmax", "softmax", {{7}}, 3},
    {"softmax", "softmax", {{3, 35}}, 2},
    {"max_pool", "{max_pool: {kernel: 2}}", {{6, 5, 3}}, 2},
    {"max_pool", "{max_pool: {kernel: 3, stride: 2, padding: 1}}", {{7, 6, 2}}, 2},
    {"max_pool", "{max_pool: {kernel: 2, stride: 3}}", {{8, 7, 2}}, 1},
    {"avg_pool", "{avg_pool: {kernel: 2}}", {{6, 5, 3}}, 2},
    {"avg_pool", "{avg_pool: {kernel: 3, stride: 1, padding: 1}}", {{5, 4, 2}}, 2},
    {"max_pool1d", "{max_pool1d: {kernel: 3, stride: 2, padding: 1}}", {{9, 5}}, 3},
    {"avg_pool1d", "avg_pool1d: 4", {{11, 3}}, 2},
    {"max_pool3d", "max_pool3d: 2", {{5, 4, 6, 3}}, 2},
    {"max_pool3d", "{max_pool3d: {kernel: 3, stride: 2, padding: 1}}", {{4, 5, 3, 2}}, 2},
    {"avg_pool3d", "{avg_pool3d: {kernel: 3, stride: 1, padding: 1}}", {{3, 4, 2, 2}}, 2},
    {"global_avg_pool", "global_avg_pool", {{5, 3, 7}}, 3},
    {"global_avg_pool", "global_avg_pool", {{9, 11, 33}}, 1},
    {"global_avg_pool", "global_avg_pool", {{2, 3, 4, 5}}, 2},
    {"concat", "{concat: {}}", {{3}, {5}}, 3},
    {"concat", "{concat: {}}", {{3, 2, 5}, {3, 2, 1}, {3, 2, 4}}, 2},
    {"flatten", "flatten", {{3, 2, 4}}, 2},
    {"reshape", "{reshape: {shape: [4, 6]}}", {{3, 2, 4}}, 2},
    {"permute", "{permute: {order: [1, 0]}}", {{5, 7}}, 3},
    {"permute", "{permute: {order: [2, 0, 3, 1]}}", {{3, 2, 5, 4}}, 2},
    {"permute", "{permute: {order: [1, 0, 2]}}", {{3, 4, 5}}, 2},
    {"permute", "{permute: {order: [0]}}", {{5}}, 3},
    {"slice", "{slice: {end: 3}}", {{7}}, 3},
    {"slice", "{slice: {axis: -1, begin: -4, end: -1}}", {{3, 5, 6}}, 2},
    {"slice", "{slice: {axis: 1, begin: 2}}", {{3, 5, 2}}, 2},
    {"patchify", "patchify: 2", {{4, 6, 3}}, 2},
    {"patchify", "patchify: 3", {{3, 3, 1}}, 3},
    {"sum", "{sum: {axes: [0]}}", {{5, 7}}, 3},
    {"sum", "{sum: {axes: [0, -1]}}", {{3, 4, 2, 5}}, 2},
    {"sum", "{sum: {axes: [0]}}", {{131}}, 2},
    {"mean", "{mean: {axes: [1]}}", {{5, 7}}, 3},
    {"mean", "{mean: {axes: [2, 0, 1]}}", {{3, 4, 5}}, 2},
    {"dropout", "{dropout: {rate: 0.4}}", {{5, 3}}, 4},
    {"add", "{add: {}}", {{3, 4}, {3, 4}}, 2},
    {"add", "{add: {}}", {{5}, {5}, {5}, {5}}, 3},
    {"embedding", "{embedding: {vocabulary: 5, features: 3}}", {{7}}, 3},
    {"embedding", "{embedding: {vocabulary: 13, features: 37}}", {{1}}, 5},
    {"embedding_tables", "{embedding_tables: {vocabularies: [5, 1, 9], features: 3}}", {{3}}, 7},
    {"embedding_tables", "{embedding_tables: {vocabularies: [13], features: 37}}", {{1}}, 5},
    {"dot_interaction", "{dot_interaction: {}}", {{5}, {3, 5}}, 2},
    {"dot_interaction", "{dot_interaction: {}}", {{37}, {1, 37}}, 3},
    {"dot_interaction", "{dot_interaction: {}}", {{1}, {8, 1}}, 3},
    {"position_embedding", "{position_embedding: {length: 9}}", {{7, 5}}, 3},
    {"position_embedding", "{position_embedding: {length: 4}}", {{4, 37}}, 2},
    {"position_encoding", "position_encoding", {{7, 5}}, 3},
    {"position_encoding", "position_encoding", {{4, 38}}, 2},
    {"attention", "{attention: {heads: 2, rotary: true}}", {{7, 12}}, 3},
    {"attention", "{attention: {heads: 1, causal: false, rotary: true, rotary_base: 30}}", {{9, 34}}, 2},
    {"attention", "{attention: {heads: 2}}", {{7, 10}}, 3},
    {"attention", "{attention: {heads: 3, causal: false}}", {{19, 9}}, 2},
    {"attention", "{attention: {heads: 1}}", {{1, 4}}, 2},
    {"attention", "{attention: {heads: 2, causal: false}}", {{1, 6}}, 1},
    {"attention", "{attention: {heads: 4}}", {{35, 4}}, 1},
    {"attention", "{attention: {heads: 1, causal: false}}", {{8, 34}}, 1},
    {"cross_attention", "{cross_attention: {heads: 2}}", {{7, 10}, {5, 10}}, 3},
    {"cross_attention", "{cross_attention: {heads: 3}}", {{1, 9}, {19, 9}}, 2},
    {"cross_attention", "{cross_attention: {heads: 1}}", {{18, 3}, {1, 3}}, 2},
    {"lstm", "{lstm: {units: 5}}", {{4, 3}}, 3},
    {"lstm", "{lstm: {units: 35}}", {{3, 2}}, 2},
    {"lstm", "{lstm: {units: 1}}", {{1, 1}}, 1},
    {"lstm", "{lstm: {units: 3}}", {{9, 7}}, 1},
    {"lstm", "{lstm: {units: 5, bidirectional: true}}", {{4, 3}}, 3},
    {"gru", "{gru: {units: 5}}", {{4, 3}}, 3},
    {"gru", "{gru: {units: 35}}", {{3, 2}}, 2},
    {"gru", "{gru: {units: 1, bidirectional: true}}", {{1, 1}}, 1},
    {"gru", "{gru: {units: 3, bidirectional: true}}", {{9, 7}}, 2},
};

TEST(LayerGradient, EveryTypeIsChecked) {
  std::set<std::string_view> checked;
  for (const auto& c : layer_cases) checked.insert(c.type);
  for (const auto& alternative : layer_alternatives())
    EXPECT_TRUE(checked.count(alternative.name)) << "add a case for the layer type " << alternative.name << " above";
  for (const auto& c : layer_cases) EXPECT_EQ(test::parse_layer(c.entry).type, c.type);
}

class LayerGradient : public testing::TestWithParam<std::tuple<ProviderKind, LayerCase>> {};

/// Σ weight·y: its gradient with respect to y is `weight`.
double weighted(LayerHarness& harness, const std::vector<double>& weight) {
  const auto y = harness.forward();
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += weight[i] * y[i];
  return sum;
}

/// The gradient of `weighted` with respect to `tensor` by central differences: of every element, or (on devices, whose
/// kernels take long to start) of some fifty, and of the others as in `given`.
std::vector<double> numerical(LayerHarness& harness, const Tensor& tensor, const std::vector<double>& weight,
                              const std::vector<double>& given) {
  constexpr double step = 1e-6;
  const std::vector<double> values = test::values_of(tensor);
  const std::size_t stride = runs_on_device ? values.size() / 50 | 1 : 1;  // odd, so that all channels are seen
  std::vector<double> gradient = given;
  for (std::size_t i = 0; i < values.size(); i += stride) {
    std::vector<double> moved = values;
    moved[i] = values[i] + step;
    test::set_values(tensor, moved);
    const double above = weighted(harness, weight);
    moved[i] = values[i] - step;
    test::set_values(tensor, moved);
    gradient.at(i) = (above - weighted(harness, weight)) / (2 * step);
  }
  test::set_values(tensor, values);
  return gradient;
}

TEST_P(LayerGradient, AgreesWithCentralDifferences) {
  const auto& [provider, c] = GetParam();
  LayerHarness harness(c.entry, c.inputs, c.n,
                       {.providers = test::using_provider(provider), .fused = c.fused, .addition = c.addition});
  if (harness.layer().traits().is_view) {
    EXPECT_EQ(harness.output_shape().count(), harness.x(0).count());
    return;
  }
  const auto weight = test::filling(7, harness.output_shape().count());
  const std::string undeclared = harness.undeclared_reads(weight);
  ASSERT_EQ(undeclared, "") << "the backward pass of " << c.type << " reads what it has not declared: override "
                            << undeclared << ", or read it no more";
  harness.forward();
  const auto gradients = harness.backward(weight);
  for (std::size_t i = 0; i < harness.inputs(); ++i)
    EXPECT_LT(test::largest_difference(gradients.x[i], numerical(harness, harness.x(i), weight, gradients.x[i])), 1e-7)
        << "input " << i;
  for (std::size_t i = 0; i < harness.parameters(); ++i) {
    if (harness.specs()[i].kind == ParameterSpec::Kind::statistic) continue;  // no gradient: see layer_modes_test.cpp
    EXPECT_LT(test::largest_difference(gradients.parameters[i],
                                       numerical(harness, harness.parameter(i), weight, gradients.parameters[i])),
              1e-7)
        << harness.specs()[i].name;
  }

  // The layer as the first one, without dx, has the same parameter gradients; a second micro-batch adds to them.
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
  LayerHarness narrow(c.entry, c.inputs, c.n,
                      {.dtype = DType::f32, .providers = providers, .fused = c.fused, .addition = c.addition});
  LayerHarness wide(c.entry, c.inputs, c.n, {.providers = providers, .fused = c.fused, .addition = c.addition});
  if (wide.layer().traits().is_view) return;
  const auto weight = test::filling(7, wide.output_shape().count());
  EXPECT_LT(test::largest_difference(narrow.forward(), wide.forward()), 2e-5);
  const auto a = narrow.backward(weight), b = wide.backward(weight);
  for (std::size_t i = 0; i < a.x.size(); ++i) EXPECT_LT(test::largest_difference(a.x[i], b.x[i]), 2e-5);
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    EXPECT_LT(test::largest_difference(a.parameters[i], b.parameters[i]), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Providers, LayerGradient,
                         testing::Combine(testing::ValuesIn(test::automatic_and_portable()),
                                          testing::ValuesIn(layer_cases)));

/// Compares every other provider of the build, where it supports the case, with the portable one.
TEST(LayerProviders, AgreeWithThePortableOne) {
  for (const ProviderKind kind : test::provider_kinds())
    for (const DType dtype : {DType::f32, DType::f64})
      for (const auto& c : layer_cases) {
        if (c.type != "linear" && c.type.rfind("conv", 0) != 0) continue;
        std::unique_ptr<LayerHarness> harness;
        try {
          harness = std::make_unique<LayerHarness>(
              c.entry, c.inputs, c.n,
              LayerHarness::Options{
                  .dtype = dtype, .providers = test::using_provider(kind), .fused = c.fused, .addition = c.addition});
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), ExitStatus::bad_deck) << error.what();
          EXPECT_NE(kind, ProviderKind::automatic);
          EXPECT_NE(kind, ProviderKind::portable);
          const bool does_some = kind == ProviderKind::cudnn || kind == ProviderKind::blaslt;
          EXPECT_TRUE(does_some || dtype == DType::f64 || c.entry.find("groups") != std::string::npos) << error.what();
          continue;
        }
        LayerHarness portable(c.entry, c.inputs, c.n,
                              {.dtype = dtype,
                               .providers = test::using_provider(ProviderKind::portable),
                               .fused = c.fused,
                               .addition = c.addition});
        const std::string what = fmt::format("{} {} {}", provider_names[static_cast<std::size_t>(kind)], name_of(dtype),
                                             c.entry);
        const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
        const auto weight = test::filling(7, portable.output_shape().count());
        EXPECT_LT(test::largest_difference(harness->forward(), portable.forward()), tolerance) << what;
        for (const Store store : {Store::replace, Store::add}) {
          const auto a = harness->backward(weight, store), b = portable.backward(weight, store);
          EXPECT_LT(test::largest_difference(a.x[0], b.x[0]), tolerance) << what;
          for (std::size_t i = 0; i < a.parameters.size(); ++i)
            EXPECT_LT(test::largest_difference(a.parameters[i], b.parameters[i]), tolerance)
                << what << " " << harness->specs()[i].name;
        }
      }
}

}  // namespace
}  // namespace lockstep
