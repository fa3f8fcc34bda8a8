// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"
#include "train/evaluator.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t positions = 40, vocabulary = 11;
const std::array<std::string, 3> metrics{"perplexity", "top_5", "f1"};

struct Case {
  std::string layers, loss;
  std::vector<std::string> frozen;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.layers << ", " << c.loss; }
};

/// A network on sequences whose output is computed as a whole, or in tiles of 64 rows.
class Network {
 public:
  Network(const Case& c, DType dtype, bool tiles)
      : model(graph_of(c), {.dtype = dtype, .max_batch = examples, .tile_bytes = tiles ? std::size_t{1} : 0}),
        sums_(examples, model.graph().output_shape(), metrics, loss_of(c)->ignored_class()),
        loss_(loss_of(c)) {
    model.parameters().initialize(ExecSpace(), 17);
    for (std::int64_t i = 0; i < examples * positions; ++i) {
      tokens_.push_back(static_cast<double>(7 * i % vocabulary));
      targets_.push_back(static_cast<std::int32_t>((5 * i + i / 9) % vocabulary));
    }
  }

  static constexpr std::int64_t examples = 9;

  /// The loss sums of examples first … first+count−1; computes their gradients, too, if `training`.
  LossSums run(std::int64_t first, std::int64_t count, bool training, Store store = Store::replace) {
    const PassContext context{.training = training, .seed = 1, .first_example = first, .gradients = store};
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = first * positions; i < (first + count) * positions; ++i)
      tokens.push_back(static_cast<std::int32_t>(tokens_[static_cast<std::size_t>(i)]));
    const OwnedTensor x = test::make_classes(tokens);
    const OwnedTensor targets = test::make_classes(
        {targets_.begin() + first * positions, targets_.begin() + (first + count) * positions});
    const Tensor input = x.get().reshaped({count, positions});
    sums_.clear(context.space);
    uses = 0;
    model.forward(context, input, [&](const Model::Output& output) {
      ++uses;
      if (!training) sums_.add_others(context.space, output, targets.get());
      sums_.add(context.space, *loss_, count, output, targets.get().reshaped({count, positions}), 8);
    });
    if (training) model.backward(context, input, [this](ElementRange range) { ready += range.count; });
    return sums_.local(context.space);
  }

  Metrics metrics_of_all() {
    run(0, examples, false);
    return sums_.reduce_all(ExecSpace(), Communicator::alone(), *loss_, examples);
  }

  std::vector<double> gradients() { return test::values_of(model.parameters().gradients()); }

  Model model;
  int uses = 0;
  std::int64_t ready = 0;

 private:
  static Graph graph_of(const Case& c) {
    Graph graph(test::parse_layers(c.layers), {positions});
    graph.freeze(c.frozen, "freeze");
    return graph;
  }
  static std::unique_ptr<Loss> loss_of(const Case& c) {
    LossConfig config;
    read_config(parse_deck(c.loss, "test"), config);
    return config.make();
  }

  MetricSums sums_;
  std::unique_ptr<Loss> loss_;
  std::vector<double> tokens_;
  std::vector<std::int32_t> targets_;
};

class OutputTiles : public testing::TestWithParam<Case> {};

TEST_P(OutputTiles, ChangeNothing) {
  Network whole(GetParam(), DType::f64, false), tiled(GetParam(), DType::f64, true);
  ASSERT_EQ(whole.model.plan().tile_rows, 0);
  ASSERT_EQ(tiled.model.plan().tile_rows, 64);
  EXPECT_EQ(whole.model.training_flops(3), tiled.model.training_flops(3));
  // Two micro-batches, of 160 and 200 rows; then an empty one.
  for (const bool training : {true, false})
    for (const auto& [first, count, store] : {std::tuple{0, 4, Store::replace}, {4, 5, Store::add}}) {
      const LossSums a = whole.run(first, count, training, store), b = tiled.run(first, count, training, store);
      EXPECT_EQ(whole.uses, 1);
      EXPECT_EQ(tiled.uses, (count * positions + 63) / 64);
      EXPECT_NEAR(a.loss, b.loss, 1e-12 * a.loss);
      EXPECT_EQ(a.correct, b.correct);
      EXPECT_EQ(a.weight, b.weight);
      EXPECT_EQ(a.counted, b.counted);
      EXPECT_LT(test::largest_difference(whole.gradients(), tiled.gradients()), 1e-12);
    }
  EXPECT_EQ(whole.ready, tiled.ready);
  tiled.run(0, 0, true);
  EXPECT_EQ(tiled.uses, 0);
}

TEST_P(OutputTiles, HaveTheSameMetrics) {
  const Metrics a = Network(GetParam(), DType::f64, false).metrics_of_all(),
                b = Network(GetParam(), DType::f64, true).metrics_of_all();
  EXPECT_NEAR(a.loss, b.loss, 1e-12);
  EXPECT_EQ(a.accuracy, b.accuracy);
  ASSERT_EQ(a.others.size(), metrics.size());
  for (std::size_t i = 0; i < a.others.size(); ++i) EXPECT_NEAR(a.others[i].value, b.others[i].value, 1e-12);
}

TEST_P(OutputTiles, In16Bits) {
  Network whole(GetParam(), DType::bf16, false), tiled(GetParam(), DType::bf16, true);
  const LossSums a = whole.run(0, 9, true), b = tiled.run(0, 9, true);
  EXPECT_NEAR(a.loss, b.loss, 1e-3 * a.loss);
  // Each tile rounds its sum to 16 bits.
  EXPECT_LT(test::largest_difference(whole.gradients(), tiled.gradients()),
            0.01 * test::largest_difference(whole.gradients(), std::vector<double>(whole.gradients().size())));
}

const std::string embedding = "{embedding: {vocabulary: 11, features: 6}, name: words}, {lstm: {units: 6}, name: lstm}";
INSTANTIATE_TEST_SUITE_P(
    Networks, OutputTiles,
    testing::Values(
        Case{"[" + embedding + ", {layer_norm: {}}, {linear: {features: 11}}]", "{type: cross_entropy}", {}},
        Case{"[" + embedding + ", {linear: {features: 11, bias: false}}]",
             "{type: cross_entropy, label_smoothing: 0.1}",
             {}},
        Case{"[" + embedding + ", {linear: {features: 11, tied_to: words}}]",
             "{type: cross_entropy, ignore_class: 3}",
             {}},
        // A residual sum before the output; and, last, only frozen layers before it.
        Case{"[" + embedding +
                 ", {linear: {features: 6}, name: a}, {add: {}, from: [a, lstm]}, {relu: {}}, "
                 "{linear: {features: 11}}]",
             "{type: cross_entropy, class_weights: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}",
             {}},
        Case{"[" + embedding + ", {linear: {features: 11}, name: last}]", "{type: cross_entropy}", {"words", "lstm"}}));

/// On some machines 0/0 is a NaN with its sign bit set.
TEST(MetricSums, WhatDoesNotExistIsNanWithoutASign) {
  const std::array<std::string, 2> others{"auc", "top_2"};
  MetricSums sums(4, {vocabulary}, others, -1);
  sums.clear(ExecSpace());
  LossConfig loss;
  read_config(parse_deck("{type: cross_entropy}", "test"), loss);
  for (const auto& [name, value] : sums.reduce_all(ExecSpace(), Communicator::alone(), *loss.make(), 0).others) {
    EXPECT_TRUE(std::isnan(value)) << name;
    EXPECT_FALSE(std::signbit(value)) << name;
  }
}

TEST(OutputTileRows, AreForLargeOutputsOfALinearLayerAlone) {
  const auto rows = [](const std::string& layers, std::int64_t batch, std::size_t bytes) {
    Graph graph(test::parse_layers("[{embedding: {vocabulary: 11, features: 6}}, " + layers + "]"), {40});
    return plan_model(graph, {.dtype = DType::f32, .max_batch = batch, .tile_bytes = bytes}).tile_rows;
  };
  EXPECT_EQ(rows("{linear: {features: 100}}", 100, 1), 64);
  EXPECT_EQ(rows("{linear: {features: 100}}", 100, 400 * 300), 256);
  EXPECT_EQ(rows("{linear: {features: 100}}", 25, 400 * 256), 0);  // fewer than four tiles
  EXPECT_EQ(rows("{linear: {features: 100}}", 26, 400 * 256), 256);
  EXPECT_EQ(rows("{linear: {features: 100}}", 100, 0), 0);
  EXPECT_EQ(rows("{linear: {features: 100}}, relu", 100, 1), 0);
  EXPECT_EQ(rows("{linear: {features: 100}}, gelu", 100, 1), 0);
  EXPECT_EQ(rows("{linear: {features: 100}}, flatten", 100, 1), 0);
  EXPECT_EQ(rows("layer_norm", 100, 1), 0);
}

}  // namespace
}  // namespace lockstep
