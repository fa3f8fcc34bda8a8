// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

Graph graph_of(const std::string& layers, const Shape& input) { return Graph(test::parse_layers(layers), input); }

std::string complaint(const std::string& layers, const Shape& input) {
  try {
    graph_of(layers, input);
  } catch (const DeckError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("test:1:")) << "says where";
    EXPECT_THAT(error.what(), HasSubstr(": layers.")) << "and at which key";
    return error.what();
  }
  return "";
}

TEST(Graph, ConcatenationsAreAsWideAsTheirInputs) {
  const Graph graph = graph_of(
      "[{conv2d: {filters: 2, kernel: 1}, name: a}, {conv2d: {filters: 5, kernel: 1}, name: b}, {concat: {}, from: [a, b, a]}, global_avg_pool]",
      {4, 3, 1});
  EXPECT_EQ(graph.nodes()[2].shape, (Shape{4, 3, 9}));
  EXPECT_EQ(graph.output_shape(), Shape{9});
}

TEST(Graph, NamesShapesAndInputs) {
  const Graph graph = graph_of(
      "[{conv2d: {filters: 4, kernel: 3, padding: same, stride: 2}}, relu, {max_pool: {kernel: 2}}, flatten, {linear: {features: 10}, name: last}]",
      {9, 7, 3});
  const auto& nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 5u);
  EXPECT_EQ(nodes[0].name, "conv2d_1");
  EXPECT_EQ(nodes[1].name, "relu_1");
  EXPECT_EQ(nodes[4].name, "last");
  EXPECT_EQ(nodes[0].inputs, std::vector<int>{GraphNode::data});
  EXPECT_EQ(nodes[0].shape, (Shape{5, 4, 4}));
  EXPECT_EQ(nodes[2].shape, (Shape{2, 2, 4}));
  EXPECT_EQ(nodes[3].shape, Shape{16});
  EXPECT_EQ(graph.output_shape(), Shape{10});
  EXPECT_EQ(graph.parameter_count(), 4 * 3 * 9 + 4 + 160 + 10);
  EXPECT_TRUE(nodes[1].view) << "relu is fused into the convolution";
  EXPECT_TRUE(nodes[3].view);
}

TEST(Graph, RunningNumbersCountTypes) {
  const Graph graph = graph_of("[{linear: {features: 3}}, relu, {linear: {features: 3}}, relu]", {2});
  EXPECT_EQ(graph.nodes()[2].name, "linear_2");
  EXPECT_EQ(graph.nodes()[3].name, "relu_2");
}

TEST(Graph, AnyActivationIsFused) {
  for (const char* activation : {"relu", "tanh", "sigmoid", "gelu"})
    EXPECT_TRUE(graph_of(fmt::format("[{{linear: {{features: 3}}}}, {}]", activation), {2}).nodes()[1].view)
        << activation;
  EXPECT_TRUE(graph_of("[{conv2d: {filters: 3, kernel: 1}}, tanh]", {2, 2, 1}).nodes()[1].view);
  EXPECT_FALSE(graph_of("[{conv2d: {filters: 3, kernel: 1}}, gelu]", {2, 2, 1}).nodes()[1].view)
      << "a convolution keeps nothing";
  EXPECT_TRUE(graph_of("[batch_norm, relu]", {2}).nodes()[1].view);
  EXPECT_FALSE(graph_of("[batch_norm, tanh]", {2}).nodes()[1].view);
}

TEST(Graph, ReluIsFusedOnlyWhereNobodySeesWhatIsBefore) {
  EXPECT_FALSE(graph_of("[{linear: {features: 3}, name: a}, {relu: {}, name: r}, {add: {}, from: [a, r]}]", {2})
                   .nodes()[1]
                   .view);
  EXPECT_FALSE(graph_of("[relu, {linear: {features: 3}}]", {2}).nodes()[0].view);
  EXPECT_FALSE(graph_of("[{max_pool: {kernel: 2}}, relu, flatten]", {4, 4, 1}).nodes()[1].view);
  EXPECT_FALSE(graph_of("[{conv2d: {filters: 1, kernel: 1}}, flatten, relu]", {4, 4, 1}).nodes()[2].view);
}

TEST(Graph, AdditionsAndActivationsJoinABatchNorm) {
  const Graph graph = graph_of(
      "[{linear: {features: 3}, name: a}, {batch_norm: {}, name: b}, {linear: {features: 3}, name: c, from: a},"
      " {add: {}, name: s, from: [b, c]}, {relu: {}, name: r}, {linear: {features: 2}, name: last}]",
      {4});
  std::vector<std::string> order;
  for (const auto& node : graph.nodes()) order.push_back(node.name);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "c", "b", "s", "r", "last"})) << "the norm waits for what it adds";
  EXPECT_EQ(graph.nodes()[2].inputs, (std::vector<int>{0, 1}));
  EXPECT_TRUE(graph.nodes()[3].view);
  EXPECT_TRUE(graph.nodes()[4].view);
  EXPECT_EQ(graph.nodes()[2].number, 1u) << "its place in the deck";
}

TEST(Graph, AdditionsStayWhereSomebodySeesWhatIsBefore) {
  EXPECT_FALSE(
      graph_of(
          "[{linear: {features: 3}, name: a}, {batch_norm: {}, name: b}, {add: {}, from: [b, a], name: s}, {add: {}, from: [s, b]}]",
          {4})
          .nodes()[2]
          .view);
  EXPECT_FALSE(graph_of("[{linear: {features: 3}, name: a}, {batch_norm: {}, name: b}, {add: {}, from: [b, b]}]", {4})
                   .nodes()[2]
                   .view);
  EXPECT_FALSE(
      graph_of("[{linear: {features: 3}, name: a}, {linear: {features: 3}, name: b}, {add: {}, from: [a, b]}]", {4})
          .nodes()[2]
          .view);
  EXPECT_TRUE(graph_of("[{linear: {features: 3}, name: a}, {batch_norm: {}, name: b}, {add: {}, from: [a, b]}]", {4})
                  .nodes()[2]
                  .view)
      << "the last layer";
  EXPECT_FALSE(
      graph_of(
          "[{linear: {features: 3}, name: a}, {batch_norm: {}, name: b}, {add: {}, from: [a, b], name: s}, {relu: {}, name: r}, {add: {}, from: [r, s]}]",
          {4})
          .nodes()[3]
          .view)
      << "the sum has another reader";
}

TEST(Graph, Mistakes) {
  EXPECT_THAT(complaint("[{linear: {features: 3}}]", {4, 4, 1}), HasSubstr("put a flatten before it"));
  EXPECT_THAT(complaint("[{conv2d: {filters: 3, kernel: 3}}]", {4}), HasSubstr("reads images"));
  EXPECT_THAT(complaint("[{conv2d: {filters: 3, kernel: 5}}]", {4, 4, 1}),
              HasSubstr("(5) is larger than its input (4×4×1) plus padding"));
  EXPECT_THAT(complaint("[{conv2d: {filters: 4, kernel: 1, groups: 2}}]", {4, 4, 3}),
              HasSubstr("3 channels cannot be divided evenly into 2 groups"));
  EXPECT_THAT(complaint("[{conv1d: {filters: 3, kernel: 3}}]", {4, 4, 1}), HasSubstr("conv1d reads sequences (T×C)"));
  EXPECT_THAT(complaint("[{conv3d: {filters: 3, kernel: 3}}]", {4, 4, 1}), HasSubstr("conv3d reads volumes (D×H×W×C)"));
  EXPECT_THAT(complaint("[{conv3d: {filters: 3, kernel: 3}}]", {2, 4, 4, 1}),
              HasSubstr("(3) is larger than its input (2×4×4×1) plus padding"));
  EXPECT_THAT(complaint("[{conv_transpose2d: {filters: 3, kernel: 3}}]", {4}), HasSubstr("reads images"));
  EXPECT_THAT(complaint("[{conv_transpose2d: {filters: 3, kernel: 3, padding: 2}}]", {2, 4, 1}),
              HasSubstr("a padding of 2 leaves no output for an input of 2×4×1"));
  EXPECT_THAT(complaint("[group_norm: 2]", {4, 3}), HasSubstr("3 channels cannot be divided evenly into 2 groups"));
  EXPECT_THAT(complaint("[max_pool1d: 2]", {4}), HasSubstr("max_pool1d reads sequences"));
  EXPECT_THAT(complaint("[avg_pool3d: 3]", {2, 4, 4, 1}),
              HasSubstr("(3) is larger than its input (2×4×4×1) plus padding"));
  EXPECT_THAT(complaint("[{max_pool: {kernel: 5}}]", {4, 4, 3}),
              HasSubstr("(5) is larger than its input (4×4×3) plus padding"));
  EXPECT_THAT(complaint("[{linear: {features: 3}, name: a}, {relu: {}, name: a}]", {4}),
              HasSubstr("the layer name 'a' is given twice"));
  EXPECT_THAT(complaint("[{linear: {features: 3}, name: first}, {relu: {}, from: frist}]", {4}),
              HasSubstr("did you mean 'first'?"));
  EXPECT_THAT(complaint("[{relu: {}, name: a, from: a}]", {4}), HasSubstr("no earlier layer"));
  EXPECT_THAT(
      complaint("[{linear: {features: 3}, name: a}, {linear: {features: 3}, name: b}, {relu: {}, from: a}]", {4}),
      HasSubstr("no layer reads layer 'b'"));
  EXPECT_THAT(
      complaint("[{linear: {features: 3}, name: a}, {linear: {features: 2}, name: b}, {add: {}, from: [a, b]}]", {4}),
      HasSubstr("cannot sum 3 and 2"));
  EXPECT_THAT(complaint("[{linear: {features: 3}}, add]", {4}), HasSubstr("add has 1 input"));
  EXPECT_THAT(complaint("[{linear: {features: 3}}, concat]", {4}), HasSubstr("concat has 1 input"));
  EXPECT_THAT(
      complaint(
          "[{conv2d: {filters: 1, kernel: 1}, name: a}, {conv2d: {filters: 1, kernel: 2}, name: b}, {concat: {}, from: [a, b]}]",
          {4, 4, 1}),
      HasSubstr("cannot join 4×4×1 and 3×3×1"));
  EXPECT_THAT(complaint("[{linear: {features: 3}}, global_avg_pool]", {4}), HasSubstr("reads images"));
  EXPECT_THAT(complaint("[{linear: {features: 3}, name: a}, {relu: {}, from: [a, a]}]", {4}), HasSubstr("2 are named"));
  EXPECT_THAT(complaint("[{embedding: {vocabulary: 5, features: 2}}]", {4, 3}), HasSubstr("embedding reads tokens"));
  EXPECT_THAT(complaint("[{linear: {features: 3}}, position_encoding]", {4}), HasSubstr("position_encoding reads seq"));
  EXPECT_THAT(complaint("[{attention: {heads: 2, rotary: true}}]", {4, 6}), HasSubstr("heads of 3 features cannot be"));
  EXPECT_THAT(complaint("[{cross_attention: {heads: 2}}]", {4, 6}), HasSubstr("cross_attention has 1 input"));
  EXPECT_THAT(
      complaint(
          "[{linear: {features: 6}, name: a}, {linear: {features: 4}, name: b}, {cross_attention: {heads: 2}, from: [a, b]}]",
          {3, 5}),
      HasSubstr("its inputs have 6 and 4 features"));
  const std::string tokens =
      "[{embedding: {vocabulary: 5, features: 2}, name: tokens}, {linear: {features: 2}, name: a}, ";
  EXPECT_THAT(complaint(tokens + "{linear: {features: 5, tied_to: token}}]", {4}),
              HasSubstr("no earlier layer is named"));
  EXPECT_THAT(complaint(tokens + "{linear: {features: 5, tied_to: b}, name: b}]", {4}), HasSubstr("no earlier layer"));
  EXPECT_THAT(complaint(tokens + "{linear: {features: 5, tied_to: a}}]", {4}), HasSubstr("'a' has type linear"));
  EXPECT_THAT(complaint(tokens + "{linear: {features: 6, tied_to: tokens}}]", {4}),
              HasSubstr("the weight of 'tokens' is 5×2, but 6×2 is needed"));
  EXPECT_THAT(
      complaint(
          tokens +
              "{linear: {features: 5, tied_to: tokens}}, {linear: {features: 2}}, {linear: {features: 5, tied_to: tokens}}]",
          {4}),
      HasSubstr("the weight of 'tokens' is already shared with another layer"));
  EXPECT_THAT(complaint("[{position_embedding: {length: 5}}]", {4}), HasSubstr("reads sequences"));
  EXPECT_THAT(complaint("[{embedding: {vocabulary: 5, features: 2}}, {position_embedding: {length: 5}}]", {6}),
              HasSubstr("a sequence of 6 positions is longer than the 5 of position_embedding"));
  EXPECT_THAT(complaint("[{attention: {heads: 2}}]", {4}), HasSubstr("reads sequences"));
  EXPECT_THAT(complaint("[{attention: {heads: 3}}]", {4, 8}), HasSubstr("8 features cannot be divided among 3 heads"));
  EXPECT_THAT(complaint("[{embedding_tables: {vocabularies: [4, 5], features: 2}}]", {3}),
              HasSubstr("embedding_tables has 2 tables"));
  EXPECT_THAT(complaint("[{linear: {features: 3}}, dot_interaction]", {4}), HasSubstr("dot_interaction has 1 input"));
  EXPECT_THAT(
      complaint("[{reshape: {shape: [2, 3]}, name: a}, {flatten: {}, name: b}, {dot_interaction: {}, from: [b, a]}]",
                {6}),
      HasSubstr("dot_interaction cannot read 6 and 2×3"));
  EXPECT_THAT(complaint("[{reshape: {shape: [3, 5]}}]", {4, 4}),
              HasSubstr("4×4 (16 values) cannot be reshaped to 3×5"));
  EXPECT_THAT(complaint("[{permute: {order: [1, 0]}}]", {4, 4, 3}), HasSubstr("an order of 2 axes"));
  EXPECT_THAT(complaint("[{slice: {axis: 2, end: 1}}]", {4, 4}), HasSubstr("slice names axis 2"));
  for (const char* places : {"begin: 3, end: 3", "end: 5", "begin: -5", "begin: 3, end: -2", "begin: 4"})
    EXPECT_THAT(complaint(fmt::format("[{{slice: {{{}}}}}]", places), {4}), HasSubstr("whose indices are 0 to 3"));
  EXPECT_THAT(complaint("[{patchify: 2}]", {4, 4}), HasSubstr("patchify reads images"));
  EXPECT_THAT(complaint("[{patchify: 2}]", {4, 5, 1}), HasSubstr("cannot be cut into patches of 2×2"));
  EXPECT_THAT(complaint("[{mean: {axes: [0, -2]}}]", {4, 3}), HasSubstr("mean names axis 0 of 4×3 twice"));
  EXPECT_THAT(complaint("[{sum: {axes: [-3]}}]", {4, 3}), HasSubstr("sum names axis -3"));
  EXPECT_THAT(complaint("[{lstm: {units: 3}}]", {4, 8, 1}), HasSubstr("reads sequences"));
  EXPECT_THAT(complaint("[{relu: {}, name: a/b}]", {4}), HasSubstr("cannot be a layer's name"));
  EXPECT_THAT(complaint("[{linear: {features: 4}}, {embedding: {vocabulary: 10, features: 2}}]", {4}),
              HasSubstr("embedding reads tokens"));
}

TEST(Graph, KnowsWhichNumbersOfTheDataAreRowNumbers) {
  const std::string tables = "{embedding_tables: {vocabularies: [4, 5], features: 2}}";
  EXPECT_EQ(graph_of("[{slice: {begin: -3}}, {slice: {end: 2}}, " + tables + "]", {6}).tables_of_data(),
            (std::vector<std::int64_t>{0, 0, 0, 4, 5, 0}));
  EXPECT_EQ(graph_of("[{slice: {axis: 0, begin: 1}}, flatten, " + tables + "]", {2, 2}).tables_of_data(),
            (std::vector<std::int64_t>{0, 0, 4, 5}));
  EXPECT_TRUE(graph_of("[{slice: {axis: 1, begin: 1}}, flatten, " + tables + "]", {2, 2}).tables_of_data().empty());
  EXPECT_TRUE(graph_of("[relu, " + tables + "]", {2}).tables_of_data().empty());
}

TEST(Graph, MoreInputsThanAnyLayerTakes) {
  std::string from = "a";
  for (int i = 0; i < 40; ++i) from += ", a";
  EXPECT_THROW(Model(graph_of("[{linear: {features: 3}, name: a}, {add: {}, from: [" + from + "]}]", {2}), {}), Error);
}

TEST(Presets, AreWhatTheIssueSays) {
  ModelConfig config;
  read_config(parse_deck("preset: fc\n", "test"), config);
  const Graph fc(config.resolved_layers(), {28, 28, 1});
  EXPECT_EQ(fc.parameter_count(), 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 10240 + 10);
  ModelConfig other;
  read_config(parse_deck("preset: simple_cnn\n", "test"), other);
  const Graph cnn(other.resolved_layers(), {28, 28, 1});
  EXPECT_EQ(cnn.parameter_count(), 25 * 32 + 32 + 25 * 32 * 64 + 64 + 49 * 64 * 1024 + 1024 + 10240 + 10);
  EXPECT_EQ(cnn.output_shape(), Shape{10});
}

TEST(Presets, RecommenderIsThatOfItsPaper) {
  ModelConfig config;
  read_config(
      parse_deck("{preset: recommender, dense: 3, vocabularies: [5, 7], features: 4, bottom: [6], top: [8]}", "test"),
      config);
  EXPECT_EQ(config.input, std::vector<std::int64_t>{5});
  const Graph graph(config.resolved_layers(), {5});
  EXPECT_EQ(graph.output_shape(), Shape{1});
  EXPECT_EQ(graph.parameter_count(), (3 * 6 + 6) + (6 * 4 + 4) + 12 * 4 + (4 + 3) * 8 + 8 + 8 + 1);
}

TEST(Presets, AreThoseOfTheirPapers) {
  const auto graph_of_preset = [](const std::string& deck) {
    ModelConfig config;
    read_config(parse_deck(deck, "test"), config);
    return Graph(config.resolved_layers(), Shape(std::span(config.input)));
  };
  const auto trained = [](const Graph& graph) {
    std::int64_t count = 0;
    for (const GraphNode& node : graph.nodes())
      for (const ParameterSpec& spec : node.parameters)
        if (spec.kind == ParameterSpec::Kind::trained) count += spec.shape.count();
    return count;
  };
  EXPECT_EQ(trained(graph_of_preset("preset: wide_resnet\n")), 36479194);  // the paper says 36.5 M
  EXPECT_EQ(graph_of_preset("preset: unet\n").output_shape(), Shape({256, 256, 2}));
  EXPECT_EQ(trained(graph_of_preset("preset: unet\n")), 31030658);
  EXPECT_EQ(trained(graph_of_preset("{preset: speech_cnn, classes: 10}\n")), 558090);  // 559 K
  EXPECT_THAT(
      [&] { graph_of_preset("{preset: unet, image: 100}\n"); },
      testing::ThrowsMessage<DeckError>(HasSubstr("100 pixels cannot be halved 4 times; use a multiple of 16")));
  EXPECT_THAT([&] { graph_of_preset("{preset: wide_resnet, depth: 20}\n"); },
              testing::ThrowsMessage<DeckError>(HasSubstr("20 convolutions do not make three stages of whole blocks")));
}

TEST(Presets, ComplainAtTheDecksPlace) {
  std::string features = "1";
  for (int i = 0; i < 60000; ++i) features += ", 1";
  ModelConfig config;
  const DeckNode deck = parse_deck("\n  preset: fc\n  features: [" + features + "]\n", "deck.yaml");
  read_config(deck, config);
  try {
    config.resolved_layers();
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("deck.yaml:2:11: preset: gives an invalid network ("));
  }
}

TEST(Model, FlopsOfLargeProducts) {
  const Model model(graph_of("[{linear: {features: 3}}, relu, {linear: {features: 2}}]", {5}),
                    {.dtype = DType::f64, .max_batch = 4});
  // The first layer computes no gradient with respect to the data.
  EXPECT_EQ(model.training_flops(4), 2.0 * 4 * (2 * 15 + 3 * 6));
}

}  // namespace
}  // namespace lockstep
