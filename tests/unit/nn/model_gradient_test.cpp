// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "ops/loss/loss.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

struct ModelCase {
  const char* name;
  const char* layers;
  Shape input;
  std::vector<std::string> frozen = {};

  friend void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }
};

const ModelCase model_cases[] = {
    {"chain", "[{linear: {features: 6}}, relu, {linear: {features: 3}}]", {5}},
    {"first_layer_alone", "[{linear: {features: 3}}]", {4}},
    {"images",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}}, relu, {max_pool: {kernel: 2}}, flatten, {linear: {features: 3}}]",
     {5, 6, 2}},
    {"relu_on_a_flatten", "[{conv2d: {filters: 2, kernel: 2}}, flatten, relu, {linear: {features: 3}}]", {4, 4, 1}},
    {"residual",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}}, {relu: {}, name: trunk}, {conv2d: {filters: 3, kernel: 3, padding: same}, name: branch},"
     " {add: {}, from: [branch, trunk]}, relu, flatten, {linear: {features: 3}}]",
     {4, 3, 2}},
    {"read_three_times",
     "[{linear: {features: 4}, name: a}, {linear: {features: 4}, name: b}, {linear: {features: 4}, name: c, from: a}, relu,"
     " {add: {}, name: d, from: [relu_1, a, b]}, {linear: {features: 3}}]",
     {5}},
    {"twice_the_same", "[{linear: {features: 3}, name: a}, {add: {}, from: [a, a]}]", {4}},
    {"relu_not_fused", "[{linear: {features: 3}, name: a}, {relu: {}, name: r}, {add: {}, from: [a, r]}]", {4}},
    {"ends_with_relu", "[{linear: {features: 3}}, relu]", {4}},
    {"dropout", "[{linear: {features: 8}}, relu, {dropout: {rate: 0.5}}, {linear: {features: 3}}]", {5}},
    {"norm_block",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}}, {batch_norm: {}}, {relu: {}, name: trunk},"
     " {conv2d: {filters: 3, kernel: 3, padding: same}}, batch_norm, relu, {conv2d: {filters: 3, kernel: 3, padding: same}}, {batch_norm: {}, name: b},"
     " {add: {}, from: [b, trunk]}, relu, flatten, {linear: {features: 3}}]",
     {4, 3, 2}},
    {"norm_projection",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}, name: stem}, {conv2d: {filters: 4, kernel: 3, stride: 2, padding: 1}},"
     " {batch_norm: {}, name: b}, {conv2d: {filters: 4, kernel: 1, stride: 2}, from: stem}, {batch_norm: {}, name: p},"
     " {add: {}, from: [b, p], name: sum}, {relu: {}, name: r}, {add: {}, from: [r, r]}, flatten, {linear: {features: 3}}]",
     {5, 4, 2}},
    {"norm_of_a_sum_with_itself",
     "[{linear: {features: 4}, name: a}, {batch_norm: {}, name: b}, {add: {}, from: [b, a], name: c}, {add: {}, from: [c, a]}]",
     {5}},
    {"norm_read_twice",
     "[{linear: {features: 4}, name: a}, {batch_norm: {}, name: b}, {gelu: {}, name: g}, {linear: {features: 4}, name: l, from: b}, {add: {}, from: [g, l, b]}]",
     {5}},
    {"norm_last", "[{linear: {features: 3}}, batch_norm]", {5}},
    {"sums",
     "[{linear: {features: 4}, name: a}, {gelu: {}, name: g}, {add: {}, from: [a, g], name: s}, {layer_norm: {}, name: n}, {linear: {features: 4}, name: l}, {add: {}, from: [s, l]}]",
     {5}},
    {"pools",
     "[{avg_pool: {kernel: 2, stride: 1}}, {conv2d: {filters: 2, kernel: 3, stride: 2, padding: 1}}, {avg_pool: {kernel: 2}}, flatten, {linear: {features: 3}}]",
     {6, 7, 2}},
    {"tied",
     "[{embedding: {vocabulary: 6, features: 4}, name: tokens}, {linear: {features: 4}}, tanh, global_avg_pool,"
     " {linear: {features: 6, tied_to: tokens}}]",
     {5}},
    {"norm_tied",
     "[{embedding: {vocabulary: 7, features: 3}, name: tokens}, batch_norm, {linear: {features: 7, bias: false, tied_to: tokens}},"
     " global_avg_pool, {linear: {features: 3}}]",
     {5}},
    {"frozen_tied",
     "[{embedding: {vocabulary: 6, features: 4}, name: tokens}, {linear: {features: 4}}, tanh, global_avg_pool,"
     " {linear: {features: 6, tied_to: tokens}, name: fc}]",
     {5},
     {"tokens", "fc"}},
    {"frozen_first", "[{linear: {features: 6}, name: a}, relu, {linear: {features: 3}}]", {5}, {"a"}},
    {"frozen_last", "[{linear: {features: 6}}, relu, {linear: {features: 3}, name: a}]", {5}, {"a/*"}},
    {"frozen_branch",
     "[{linear: {features: 4}, name: a}, {linear: {features: 4}, name: b, from: a}, {linear: {features: 4}, name: c, from: a},"
     " {add: {}, from: [b, c]}, {linear: {features: 3}}]",
     {5},
     {"a", "b"}},
    {"frozen_norms",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}, name: first}, {batch_norm: {}, name: a}, {relu: {}, name: trunk},"
     " {conv2d: {filters: 3, kernel: 3, padding: same}, name: c}, {batch_norm: {}, name: b}, relu,"
     " {conv2d: {filters: 3, kernel: 3, padding: same}}, {batch_norm: {}, name: d}, {add: {}, from: [d, trunk]}, relu, flatten,"
     " {linear: {features: 3}}]",
     {4, 3, 2},
     {"a", "b", "d"}},
    {"frozen_body",
     "[{conv2d: {filters: 3, kernel: 3, padding: same}, name: body1}, {batch_norm: {}, name: body2}, relu,"
     " {conv2d: {filters: 2, kernel: 1}}, batch_norm, relu, flatten, {linear: {features: 3}}]",
     {4, 3, 2},
     {"body*"}},
    {"frozen_sums",
     "[{linear: {features: 4}, name: a}, {gelu: {}, name: g}, {add: {}, from: [a, g], name: s}, {layer_norm: {}, name: n}, {linear: {features: 4}, name: l}, {add: {}, from: [s, l]}]",
     {5},
     {"n", "l"}},
};

Graph graph_of(const ModelCase& c) {
  Graph graph(test::parse_layers(c.layers), c.input);
  graph.freeze(c.frozen, "freeze");
  return graph;
}

/// A model with a batch: its summed loss, and the gradients of that loss.
class Experiment {
 public:
  Experiment(const ModelCase& c, const std::string& loss_type, std::int64_t n, ProviderKind provider)
      : model(graph_of(c), {.dtype = DType::f64, .providers = test::using_provider(provider), .max_batch = n}),
        n_(n),
        k_(model.graph().output_shape().count()),
        input_(make_input(model.graph(), n)),
        values_(test::make_filled(DType::f64, {n, k_}, 2)),
        scratch_("scratch", DType::f64, {n, 2}),
        sums_("sums", DType::f64, {loss_sum_count}) {
    LossConfig config;
    read_config(parse_deck("type: " + loss_type + "\n", "test"), config);
    loss_ = config.make();
    std::vector<std::int32_t> classes;
    for (std::int64_t i = 0; i < n; ++i) classes.push_back(static_cast<std::int32_t>(i % k_));
    classes_ = test::make_classes(classes);
    model.parameters().initialize(ExecSpace(), 17);
    for (const auto& parameter : model.parameters().parameters())
      if (parameter.kind == ParameterSpec::Kind::frozen && parameter.name.ends_with("/running_mean"))
        test::set_values(model.parameters().values(parameter), test::filling(3, parameter.shape.count()));
  }

  double loss() { return evaluate(0, n_, Store::replace, false); }

  /// Evaluates examples first … first+count-1 as one micro-batch of a step; returns their summed loss.
  double evaluate(std::int64_t first, std::int64_t count, Store store, bool backward = true) {
    const PassContext context{.seed = 1, .step = 2, .first_example = first, .gradients = store};
    const Tensor input = rows(input_.get(), first, count);
    const Tensor targets = loss_->wants_classes() ? rows(classes_.get(), first, count)
                                                  : rows(values_.get(), first, count);
    fill_zero(context.space, sums_.get());
    const Tensor outputs = model.forward(context, input);
    loss_->evaluate(context.space, outputs, targets, backward ? model.output_gradient() : Tensor{}, scratch_.get(),
                    sums_.get());
    if (backward) model.backward(context, input, [](ElementRange) {});
    context.space.fence();
    return test::values_of(sums_.get())[0];
  }

  std::vector<double> gradients() {
    std::vector<double> all;
    for (const auto& parameter : model.parameters().parameters())
      if (parameter.kind == ParameterSpec::Kind::trained)
        for (const double value : test::values_of(model.parameters().gradients(parameter))) all.push_back(value);
    return all;
  }

  Model model;

 private:
  static OwnedTensor make_input(const Graph& graph, std::int64_t n) {
    const Shape shape = graph.input_shape().with_batch(n);
    const std::int64_t vocabulary = graph.nodes()[0].layer->traits().vocabulary;
    if (vocabulary == 0) return test::make_filled(DType::f64, shape, 1);
    OwnedTensor tokens("tokens", DType::i32, shape);
    copy_from_host(ExecSpace(), test::filling_tokens(1, shape.count(), vocabulary).data(), tokens.get());
    ExecSpace().fence();
    return tokens;
  }
  static Tensor rows(const Tensor& all, std::int64_t first, std::int64_t count) {
    const std::int64_t each = all.count() / all.shape[0];
    Shape shape = all.shape.rank() == 1 ? Shape{count} : Shape(all.shape.extents().subspan(1)).with_batch(count);
    return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first * each) * size_of(all.dtype), all.dtype,
            shape};
  }

  std::int64_t n_, k_;
  OwnedTensor input_, values_, classes_, scratch_, sums_;
  std::unique_ptr<Loss> loss_;
};

class ModelGradient : public testing::TestWithParam<std::tuple<ModelCase, std::string, ProviderKind>> {};

TEST_P(ModelGradient, AgreesWithCentralDifferences) {
  const auto& [c, loss, provider] = GetParam();
  Experiment experiment(c, loss, 4, provider);
  experiment.evaluate(0, 4, Store::replace);
  const std::vector<double> gradients = experiment.gradients();
  std::vector<double> expected;
  constexpr double step = 1e-6;
  for (const auto& parameter : experiment.model.parameters().parameters()) {
    if (parameter.kind != ParameterSpec::Kind::trained) continue;
    const Tensor tensor = experiment.model.parameters().values(parameter);
    const auto values = test::values_of(tensor);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto moved = values;
      moved[i] = values[i] + step;
      test::set_values(tensor, moved);
      const double above = experiment.loss();
      moved[i] = values[i] - step;
      test::set_values(tensor, moved);
      expected.push_back((above - experiment.loss()) / (2 * step));
    }
    test::set_values(tensor, values);
  }
  EXPECT_LT(test::largest_difference(gradients, expected), 1e-7);
}

TEST_P(ModelGradient, MicroBatchesAddUpToTheWhole) {
  const auto& [c, loss, provider] = GetParam();
  if (std::string(c.name).starts_with("norm") || std::string(c.name) == "frozen_body")
    GTEST_SKIP() << "a batch norm sees each piece by itself";
  Experiment experiment(c, loss, 7, provider);
  const double whole_loss = experiment.evaluate(0, 7, Store::replace);
  const auto whole = experiment.gradients();
  test::poison(experiment.model.parameters().gradients());
  double loss_sum = 0;
  for (std::int64_t first = 0; first < 7; first += 3)
    loss_sum += experiment.evaluate(first, std::min<std::int64_t>(3, 7 - first),
                                    first == 0 ? Store::replace : Store::add);
  EXPECT_NEAR(loss_sum, whole_loss, 1e-12);
  EXPECT_LT(test::largest_difference(experiment.gradients(), whole), 1e-12);
}

TEST(FrozenLayers, LeaveTheGradientsOfOthersAsTheyWere) {
  for (const ModelCase& c : model_cases) {
    if (c.frozen.empty() || std::string(c.name) == "frozen_norms" || std::string(c.name) == "frozen_body") continue;
    ModelCase trained = c;
    trained.frozen.clear();
    Experiment with(c, "mse", 4, ProviderKind::automatic), without(trained, "mse", 4, ProviderKind::automatic);
    for (Experiment* experiment : {&with, &without}) experiment->evaluate(0, 4, Store::replace);
    for (const auto& parameter : with.model.parameters().parameters()) {
      if (parameter.kind == ParameterSpec::Kind::frozen) continue;
      const auto& others = without.model.parameters().parameters();
      const auto same = std::ranges::find(others, parameter.name, &Parameter::name);
      EXPECT_EQ(test::values_of(with.model.parameters().gradients(parameter)),
                test::values_of(without.model.parameters().gradients(*same)))
          << c.name << " " << parameter.name;
    }
  }
}

TEST(FrozenLayers, TakeNoPartInTheBackwardPassWhereNothingBeforeThemLearns) {
  const auto& body = *std::ranges::find(model_cases, std::string("frozen_body"), &ModelCase::name);
  ModelCase trained = body;
  trained.frozen.clear();
  const Experiment with(body, "mse", 4, ProviderKind::automatic), without(trained, "mse", 4, ProviderKind::automatic);
  for (const Segment& segment : with.model.plan().backward)
    for (const Task& task : segment.tasks) {
      const std::string& name = with.model.graph().nodes()[static_cast<std::size_t>(task.node)].name;
      if (task.kind != Task::Kind::recompute) {
        EXPECT_FALSE(name.starts_with("body")) << name;
      }
    }
  EXPECT_LT(with.model.plan().bytes, without.model.plan().bytes);
  EXPECT_LT(with.model.training_flops(4), without.model.training_flops(4));
  EXPECT_LT(with.model.parameters().gradients().count(), without.model.parameters().gradients().count());
  EXPECT_EQ(with.model.parameters().size(), without.model.parameters().size());
}

TEST(FrozenLayers, AreNamedByPatternsThatMeanSomething) {
  const auto refused = [](std::vector<std::string> patterns, const std::string& part) {
    Graph graph(test::parse_layers("[{linear: {features: 4}, name: a}, relu, {linear: {features: 3}, name: b}]"),
                Shape{5});
    try {
      graph.freeze(patterns, "freeze");
      ADD_FAILURE() << part;
    } catch (const KeyError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused({"c"}, "'c' matches no layer");
  refused({"relu_1"}, "matches no layer with parameters");
  refused({"a/weight"}, "matches 1 of the 2 parameters of layer 'a'");
  refused({"a", "b"}, "no parameters are left to train");
  refused({"*"}, "no parameters are left to train");

  Graph tied(test::parse_layers("[{embedding: {vocabulary: 6, features: 4}, name: tokens}, {linear: {features: 4}},"
                                " {linear: {features: 6, tied_to: tokens}, name: fc}]"),
             Shape{5});
  try {
    tied.freeze(std::vector<std::string>{"fc"}, "freeze");
    ADD_FAILURE();
  } catch (const KeyError& error) {
    EXPECT_NE(std::string(error.what()).find("freezes 'fc' but not 'tokens'"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelGradient,
                         testing::Combine(testing::ValuesIn(model_cases),
                                          testing::Values("cross_entropy", "mse", "huber", "binary_cross_entropy",
                                                          "relative_l2"),
                                          testing::ValuesIn(test::automatic_and_portable())),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", std::get<0>(info.param).name, std::get<1>(info.param),
                                              provider_names[static_cast<std::size_t>(std::get<2>(info.param))]);
                         });

}  // namespace
}  // namespace lockstep
