// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/memory_plan.hpp"
#include "nn/graph.hpp"
#include "parameters/parameter_buffer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

ParameterBuffer buffer_of(const std::string& layers, const Shape& input, DType dtype, std::uint64_t seed) {
  ParameterBuffer buffer(Graph(test::parse_layers(layers), input).layer_specs(), dtype);
  buffer.initialize(ExecSpace(), seed);
  ExecSpace().fence();
  return buffer;
}

const Parameter& find(const ParameterBuffer& buffer, const std::string& name) {
  const auto& all = buffer.parameters();
  return *std::find_if(all.begin(), all.end(), [&](const Parameter& p) { return p.name == name; });
}

constexpr const char* network =
    "[{linear: {features: 7}, name: a}, relu, {linear: {features: 3, bias: false}, name: b}, {linear: {features: 5}, name: c}]";

TEST(ParameterBuffer, LastLayerFirstAlignedWithoutHoles) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterBuffer buffer = buffer_of(network, {11}, dtype, 1);
    std::vector<std::string> names;
    std::int64_t end = 0;
    for (const auto& parameter : buffer.parameters()) {
      names.push_back(parameter.name);
      EXPECT_EQ(static_cast<std::size_t>(parameter.range.first) * size_of(dtype) % memory_alignment, 0u);
      EXPECT_GE(parameter.range.first, end);
      EXPECT_LT(static_cast<std::size_t>(parameter.range.first - end) * size_of(dtype), memory_alignment);
      EXPECT_EQ(parameter.range.count, parameter.shape.count());
      end = parameter.range.first + parameter.range.count;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"c/weight", "c/bias", "b/weight", "a/weight", "a/bias"}));
    EXPECT_GE(buffer.size(), end);
    EXPECT_EQ(buffer.of_layer(3).own.first, 0);
    EXPECT_EQ(buffer.of_layer(1).own.count, 0);
    EXPECT_EQ(buffer.of_layer(0).own.first + buffer.of_layer(0).own.count, buffer.size());
  }
}

TEST(ParameterBuffer, GapsAreZero) {
  const ParameterBuffer buffer = buffer_of(network, {11}, DType::f32, 1);
  auto values = test::values_of(buffer.values());
  for (const auto& parameter : buffer.parameters())
    std::fill_n(values.begin() + parameter.range.first, parameter.range.count, 0.0);
  EXPECT_EQ(values, std::vector<double>(values.size(), 0.0));
}

/// PyTorch's nn.init.xavier_uniform_ takes size(1) and size(0), times the kernel's taps, as fan_in and fan_out; groups
/// divide size(1) alone.
TEST(ParameterBuffer, GlorotIsPyTorchsXavier) {
  const auto bound = [](const std::string& layer, const Shape& input) {
    return test::LayerHarness(layer, {input}, 1, {}).specs()[0].initializer.value;
  };
  EXPECT_EQ(bound("{linear: {features: 5, initializer: glorot}}", {7}), std::sqrt(6.0 / (7 + 5)));
  EXPECT_EQ(bound("{conv2d: {filters: 12, kernel: 3, initializer: glorot}}", {8, 8, 4}), std::sqrt(6.0 / (36 + 108)));
  EXPECT_EQ(bound("{conv2d: {filters: 12, kernel: 3, groups: 4, initializer: glorot}}", {8, 8, 4}),
            std::sqrt(6.0 / (9 + 108)))
      << "weight [12, 1, 3, 3]";
  EXPECT_EQ(bound("{conv1d: {filters: 6, kernel: 5, groups: 2, initializer: glorot}}", {9, 4}),
            std::sqrt(6.0 / (10 + 30)))
      << "weight [6, 2, 5]";
  EXPECT_EQ(bound("{conv_transpose2d: {filters: 6, kernel: 2, groups: 2, initializer: glorot}}", {4, 4, 8}),
            std::sqrt(6.0 / (12 + 32)))
      << "weight [8, 3, 2, 2]";
}

TEST(ParameterBuffer, StartsAsPyTorchDoes) {
  const ParameterBuffer buffer = buffer_of(
      "[{conv2d: {filters: 50, kernel: 5}, name: conv}, flatten, {linear: {features: 100}, name: fc}]", {8, 8, 4},
      DType::f64, 3);
  for (const auto& [name, fan_in] :
       {std::pair{"conv/weight", 100.0}, {"conv/bias", 100.0}, {"fc/weight", 800.0}, {"fc/bias", 800.0}}) {
    const auto values = test::values_of(buffer.values(find(buffer, name)));
    const double bound = 1 / std::sqrt(fan_in);
    double largest = 0, sum = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value)), sum += value;
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.9 * bound) << name;
    EXPECT_LT(std::abs(sum), 5 * bound * std::sqrt(static_cast<double>(values.size()) / 3)) << name;
  }
}

TEST(ParameterBuffer, TablesStartAsInDlrm) {
  const ParameterBuffer buffer = buffer_of("[{embedding_tables: {vocabularies: [400, 25], features: 40}, name: t}]",
                                           {2}, DType::f64, 3);
  const auto values = test::values_of(buffer.values(find(buffer, "t/weight")));
  const auto largest = [](auto begin, auto end) { return std::abs(*std::max_element(begin, end)); };
  EXPECT_NEAR(largest(values.begin(), values.begin() + 16000), 0.05, 0.0005);
  EXPECT_NEAR(largest(values.begin() + 16000, values.end()), 0.2, 0.002);
}

TEST(ParameterBuffer, StartDependsOnTheSeedAndTheLayersBefore) {
  const ParameterBuffer one = buffer_of(network, {11}, DType::f64, 1), same = buffer_of(network, {11}, DType::f64, 1);
  const ParameterBuffer other = buffer_of(network, {11}, DType::f64, 2);
  EXPECT_EQ(test::bytes_of(one.values()), test::bytes_of(same.values()));
  EXPECT_NE(test::bytes_of(one.values()), test::bytes_of(other.values()));
  const ParameterBuffer longer = buffer_of(
      std::string(network).insert(std::string(network).size() - 1, ", {linear: {features: 2}}"), {11}, DType::f64, 1);
  for (const char* name : {"a/weight", "a/bias", "b/weight"})
    EXPECT_EQ(test::values_of(longer.values(find(longer, name))), test::values_of(one.values(find(one, name)))) << name;
  EXPECT_NE(test::values_of(one.values(find(one, "a/weight")))[0],
            test::values_of(one.values(find(one, "c/weight")))[0]);
}

TEST(ParameterBuffer, F32IsF64Rounded) {
  const ParameterBuffer narrow = buffer_of(network, {11}, DType::f32, 1),
                        wide = buffer_of(network, {11}, DType::f64, 1);
  for (const auto& parameter : wide.parameters()) {
    const auto a = test::values_of(narrow.values(find(narrow, parameter.name))),
               b = test::values_of(wide.values(parameter));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], static_cast<double>(static_cast<float>(b[i])));
  }
}

}  // namespace
}  // namespace lockstep
