// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>

#include "parameters/initializer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using test::LayerHarness;

struct SequenceCase {
  std::string entry;
  Shape input;
};
const SequenceCase sequence_cases[] = {{"{linear: {features: 7}}", {5, 6}},
                                       {"{embedding: {vocabulary: 11, features: 6}}", {9}},
                                       {"{position_embedding: {length: 9}}", {7, 6}},
                                       {"{attention: {heads: 2}}", {37, 12}},
                                       {"{attention: {heads: 3, causal: false}}", {20, 12}},
                                       {"position_encoding", {7, 6}},
                                       {"{attention: {heads: 3, rotary: true}}", {20, 12}},
                                       {"{lstm: {units: 9}}", {12, 5}},
                                       {"{gru: {units: 9, bidirectional: true}}", {12, 5}}};

TEST(SequenceLayers, SixteenBitsStayNearFp64) {
  for (const auto& c : sequence_cases)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      LayerHarness narrow(c.entry, {c.input}, 3, {.dtype = dtype}), wide(c.entry, {c.input}, 3, {});
      const auto weight = test::filling(7, wide.output_shape().count());
      const double tolerance = dtype == DType::bf16 ? 0.05 : 0.008;
      SCOPED_TRACE(fmt::format("{} {}", c.entry, name_of(dtype)));
      EXPECT_LT(test::largest_difference(narrow.forward(), wide.forward()), tolerance);
      const auto a = narrow.backward(weight), b = wide.backward(weight);
      for (std::size_t i = 0; i < a.x.size(); ++i) EXPECT_LT(test::largest_difference(a.x[i], b.x[i]), tolerance);
      for (std::size_t i = 0; i < a.parameters.size(); ++i)
        EXPECT_LT(test::largest_difference(a.parameters[i], b.parameters[i]), 2 * tolerance) << wide.specs()[i].name;
    }
}

TEST(SequenceLayers, RunsAreEqualBitForBit) {
  for (const auto& c : sequence_cases) {
    LayerHarness one(c.entry, {c.input}, 3, {.dtype = DType::f32}), other(c.entry, {c.input}, 3, {.dtype = DType::f32});
    const auto weight = test::filling(7, one.output_shape().count());
    EXPECT_EQ(one.forward(), other.forward()) << c.entry;
    EXPECT_EQ(one.backward(weight).parameters, other.backward(weight).parameters) << c.entry;
  }
}

/// Bytes that a layer saves of one example of `length` positions for the backward pass.
std::size_t kept(const std::string& entry, std::int64_t length, DType dtype) {
  ProvidersConfig providers;
  providers.recurrent = ProviderKind::portable;
  const LayerHarness harness(entry, {{length, 16}}, 1, {.dtype = dtype, .providers = providers});
  return const_cast<LayerHarness&>(harness).layer().saved_bytes(1, {length, 16});
}

TEST(SequenceLayers, WhatIsKeptGrowsLinearlyWithTheLength) {
  for (const char* entry : {"{attention: {heads: 2}}", "{lstm: {units: 16}}", "{gru: {units: 8, bidirectional: true}}"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      EXPECT_EQ(kept(entry, 256, dtype), 2 * kept(entry, 128, dtype));
      EXPECT_LE(kept(entry, 128, dtype), 128u * 16 * 6 * size_of(DType::f32));
    }
}

TEST(SequenceLayers, ChunksOfKeysDoNotShowThemselves) {
  // The outputs of a causal head at the first positions do not depend on the positions that follow.
  LayerHarness brief("{attention: {heads: 1}}", {{40, 6}}, 1, {}),
      extended("{attention: {heads: 1}}", {{300, 6}}, 1, {});
  const auto y = brief.forward();
  auto first = extended.forward();
  first.resize(y.size());
  EXPECT_LT(test::largest_difference(first, y), 1e-14);
}

TEST(SequenceLayers, ProductsCountTheWorkOfAllPositions) {
  const LayerHarness linear("{linear: {features: 7}}", {{5, 6}}, 3, {});
  EXPECT_EQ(const_cast<LayerHarness&>(linear).layer().product_flops(3), 2.0 * 3 * 5 * 6 * 7);
  const LayerHarness attention("{attention: {heads: 2}}", {{5, 6}}, 3, {});
  EXPECT_EQ(const_cast<LayerHarness&>(attention).layer().product_flops(3), 2.0 * 3 * 5 * 6 * (4 * 6 + 5));
  const LayerHarness lstm("{lstm: {units: 4}}", {{5, 6}}, 3, {});
  EXPECT_EQ(const_cast<LayerHarness&>(lstm).layer().product_flops(3), 2.0 * 3 * 5 * 4 * 4 * (6 + 4));
  const LayerHarness gru("{gru: {units: 4, bidirectional: true}}", {{5, 6}}, 3, {});
  EXPECT_EQ(const_cast<LayerHarness&>(gru).layer().product_flops(3), 2 * 2.0 * 3 * 5 * 3 * 4 * (6 + 4));
}

TEST(SequenceLayers, StartAsTheDeckSays) {
  const auto start = [](const std::string& entry, const Shape& input, std::size_t i) {
    const LayerHarness harness(entry, {input}, 1, {});
    return harness.specs()[i].initializer;
  };
  using Kind = Initializer::Kind;
  EXPECT_EQ(start("{embedding: {vocabulary: 3, features: 2}}", {4}, 0).value, 1.0);
  EXPECT_EQ(start("{embedding: {vocabulary: 3, features: 2, initial_std: 0.02}}", {4}, 0).value, 0.02);
  EXPECT_EQ(start("{position_embedding: {length: 4, initial_std: 0.01}}", {4, 2}, 0).kind, Kind::normal);
  EXPECT_EQ(start("{linear: {features: 4}}", {2}, 0).kind, Kind::uniform);
  EXPECT_EQ(start("{linear: {features: 4, initial_std: 0.02}}", {2}, 0).kind, Kind::normal);
  EXPECT_EQ(start("{linear: {features: 4, initial_std: 0.02}}", {2}, 1).kind, Kind::constant);
  EXPECT_EQ(start("{attention: {heads: 1}}", {4, 6}, 0).value, 0.5) << "√(6 / (6 + 18))";
  EXPECT_EQ(start("{attention: {heads: 1, initial_std: 0.02}}", {4, 6}, 2).kind, Kind::normal);
}

TEST(Initializer, NormalIsNormal) {
  const std::int64_t count = 100'000;
  const OwnedTensor drawn("test", DType::f64, {count}), again("test", DType::f32, {count});
  initialize(ExecSpace(), Initializer::normal(0.5), 3, 4, drawn.get());
  initialize(ExecSpace(), Initializer::normal(0.5), 3, 4, again.get());
  const auto values = test::values_of(drawn.get());
  double sum = 0, squares = 0, fourth = 0;
  int inside = 0;
  for (const double value : values) {
    const double z = value / 0.5;
    sum += z, squares += z * z, fourth += z * z * z * z;
    inside += std::abs(z) < 1;
  }
  const double n = static_cast<double>(count);
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(inside / n, 0.682689, 0.01);
  EXPECT_LT(test::largest_difference(test::values_of(again.get()), values), 1e-6);
}

}  // namespace
}  // namespace lockstep
