// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "optim/optimizer.hpp"
#include "optim/update_scalars.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

OptimizerConfig config_of(const Json& golden) {
  OptimizerConfig config;
  Json deck = golden.at("options");
  deck["type"] = golden.value("type", "sgd");
  deck["clip_norm"] = golden.value("clip_norm", 0.0);
  read_config(parse_deck(deck.dump(), "test"), config);  // JSON is YAML
  return config;
}

/// `values` rounded to the 16-bit type.
std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  std::vector<double> result;
  for (const double value : values) {
    const auto narrow = static_cast<float>(value);
    result.push_back(static_cast<double>(dtype == DType::bf16 ? static_cast<float>(bfloat16(narrow))
                                                              : static_cast<float>(half(narrow))));
  }
  return result;
}

TEST(Golden, EveryOptimizerHasACase) {
  std::set<std::string> seen;
  for (const Json& golden : Json::parse(test::read_golden("optimizers.json"))) seen.insert(golden.value("type", "sgd"));
  OptimizerConfig config;
  const Json schema = Json::parse(json_schema(config, ""));
  for (const std::string type : schema.at("properties").at("type").at("enum"))
    EXPECT_TRUE(seen.count(type)) << "add " << type << " to golden/make_golden.py";
}

TEST(Golden, Optimizers) {
  for (const Json& golden : Json::parse(test::read_golden("optimizers.json"))) {
    SCOPED_TRACE(golden.dump().substr(0, 120));
    const OptimizerConfig config = config_of(golden);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const auto input = golden.value("input", std::vector<std::int64_t>{23});
      ParameterBuffer parameters(
          Graph(test::parse_layers(golden.value("layers", "[{linear: {features: 1, bias: false}}]")), Shape(input))
              .layer_specs(),
          dtype);
      const auto fill = [&](std::uint64_t tag, const auto& values_of) {
        for (const Parameter& parameter : parameters.parameters()) {
          test::set_values(values_of(parameter), test::filling(tag, parameter.range.count));
          tag += 100;
        }
      };
      fill(300, [&](const Parameter& parameter) { return parameters.values(parameter); });
      const auto optimizer = config.make(parameters);
      const GradientSquare square(parameters.trained_size());
      const UpdateScalarsMemory scalars;
      ASSERT_EQ(optimizer->states().size(), config.state_names().size());
      for (std::size_t i = 0; i < optimizer->states().size(); ++i) {
        EXPECT_EQ(optimizer->states()[i].name, config.state_names()[i]);
      }
      for (std::uint64_t step = 0; step < golden.value("steps", 10u); ++step) {
        fill(301 + step, [&](const Parameter& parameter) { return parameters.gradients(parameter); });
        const double norm_square = test::values_of(
            square.compute(ExecSpace(), parameters.gradients({0, parameters.trained_size()})))[0];
        optimizer->step(
            ExecSpace(), parameters,
            scalars.set(ExecSpace(),
                        {.coefficients = optimizer->coefficients({.learning_rate = 0.1,
                                                                  .learning_rate_before = 0.1,
                                                                  .number = static_cast<std::int64_t>(step) + 1}),
                         .gradient_scale = clipped_gradient_scale(1.0 / 16, config.rule().clip_norm, norm_square)}));
        ExecSpace().fence();
      }
      const auto all = test::values_of(parameters.values());
      std::vector<double> found, gaps = all;
      for (const Parameter& parameter : parameters.parameters()) {
        const auto first = all.begin() + parameter.range.first;
        found.insert(found.end(), first, first + parameter.range.count);
        std::fill_n(gaps.begin() + parameter.range.first, parameter.range.count, 0.0);
      }
      EXPECT_LT(test::largest_difference(found, golden.at("p").get<std::vector<double>>()),
                dtype == DType::f64 ? 1e-14 : 1e-6);
      EXPECT_EQ(gaps, std::vector<double>(all.size(), 0.0)) << "gaps stay zero";
      if (is_16_bit_type(dtype)) {
        EXPECT_EQ(test::values_of(parameters.rounded()), rounded(all, dtype));
      }
    }
  }
}

/// A step that is left out changes nothing: not the parameters, their 16-bit copies, optimizer states or statistics,
/// nor whether the parameters are known to be finite.
TEST(Optimizer, LeavesAllAsItIsWhereTheStepIsLeftOut) {
  const ExecSpace space;
  const UpdateScalarsMemory scalars;
  for (const char* deck :
       {"{type: sgd, ema_decay: 0.9}", "{type: sgd, momentum: 0.9}", "{type: adamw}", "{type: rmsprop, momentum: 0.5}",
        "{type: lion}", "{type: lars, weight_decay: 0.01}", "{type: lamb}", "{type: adafactor}"})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool was_finite : {true, false}) {
        SCOPED_TRACE(deck);
        OptimizerConfig config;
        read_config(parse_deck(deck, "test"), config);
        ParameterBuffer parameters(
            Graph(test::parse_layers(
                      "[{conv2d: {filters: 4, kernel: 3}}, batch_norm, flatten, {linear: {features: 70}}]"),
                  {12, 12, 3})
                .layer_specs(),
            dtype);
        parameters.initialize(space, 3);
        const auto optimizer = config.make(parameters);
        const auto step = [&](const std::vector<double>& gradients, UpdateScalars with) {
          test::set_values(parameters.gradients(), gradients);
          with.coefficients = optimizer->coefficients({.learning_rate = 0.01, .learning_rate_before = 0.01});
          const UpdateScalars* const given = scalars.set(space, with);
          optimizer->step(space, parameters, given);
          parameters.update_statistics(space, 0.5, &given->left_out);
        };
        const auto all = [&] {
          std::vector<std::vector<std::uint8_t>> bytes{test::bytes_of(parameters.values())};
          if (parameters.rounded()) bytes.push_back(test::bytes_of(parameters.rounded()));
          for (const auto& state : optimizer->states()) bytes.push_back(test::bytes_of(state.values));
          return bytes;
        };
        const auto count = static_cast<std::size_t>(parameters.gradients().count());
        std::vector<double> usual(count, 0.25), bad(count, std::numeric_limits<double>::quiet_NaN());
        if (!was_finite) usual[count / 2] = std::numeric_limits<double>::quiet_NaN();
        step(usual, {.first = 1});
        ASSERT_EQ(optimizer->left_nonfinite(space), !was_finite);
        const auto before = all();
        step(bad, {.left_out = 1, .nonfinite_before = was_finite ? 0 : 1});
        EXPECT_EQ(all(), before);
        EXPECT_EQ(optimizer->left_nonfinite(space), !was_finite);
        step(bad, {});
        EXPECT_NE(all(), before);
        EXPECT_TRUE(optimizer->left_nonfinite(space));
      }
}

/// The average, ema ← d·ema + (1 − d)·p, begins with the parameters of the first step; two swaps restore everything.
TEST(Optimizer, AveragesParameters) {
  OptimizerConfig config;
  read_config(parse_deck("{learning_rate: 0.1, ema_decay: 0.75}", "test"), config);
  EXPECT_EQ(config.state_names(), std::vector<std::string>{"ema"});
  for (const DType dtype : {DType::f64, DType::bf16}) {
    ParameterBuffer parameters(Graph(test::parse_layers("[{linear: {features: 3}}]"), {5}).layer_specs(), dtype);
    const auto optimizer = config.make(parameters);
    const ExecSpace space;
    const UpdateScalarsMemory scalars;
    std::vector<double> expected, last;
    for (std::uint64_t step = 0; step < 4; ++step) {
      for (const Parameter& parameter : parameters.parameters())
        test::set_values(parameters.values(parameter), test::filling(step + 1, parameter.shape.count()));
      last = test::values_of(parameters.values());
      if (step == 0) expected = last;
      for (std::size_t i = 0; i < last.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * last[i];
      const auto average = [&](const UpdateScalars& given) {  // a step that does not change the parameters
        optimizer->step(space, parameters, scalars.set(space, given));
      };
      average({.first = step == 0 ? 1 : 0});
      average({.left_out = 1});  // a step that is left out must not change the average
    }
    parameters.round(space);
    optimizer->swap_average(space, parameters);
    space.fence();
    EXPECT_LT(test::largest_difference(test::values_of(parameters.values()), expected),
              dtype == DType::f64 ? 1e-15 : 1e-6);
    if (dtype == DType::bf16) {
      EXPECT_EQ(test::values_of(parameters.rounded()), rounded(test::values_of(parameters.values()), dtype));
    }
    optimizer->swap_average(space, parameters);
    space.fence();
    EXPECT_EQ(test::values_of(parameters.values()), last);
  }
}

TEST(GradientScale, IsTheFactorUnlessItClips) {
  ParameterBuffer parameters(Graph(test::parse_layers("[{linear: {features: 1, bias: false}}]"), {4}).layer_specs(),
                             DType::f32);
  test::set_values(parameters.gradients(parameters.parameters().at(0)), {3, 0, 0, -4});
  const auto scale = [&](double clip_norm, double factor) {
    const GradientSquare square(parameters.trained_size());
    const Tensor sum = square.compute(ExecSpace(), parameters.gradients({0, parameters.trained_size()}));
    return clipped_gradient_scale(factor, clip_norm, test::values_of(sum)[0]);
  };
  EXPECT_EQ(scale(0, 0.25), 0.25);
  EXPECT_EQ(scale(6, 1), 1.0);
  EXPECT_NEAR(scale(2, 1), 2 / 5.000001, 1e-15);
  EXPECT_NEAR(scale(0.5, 0.5), 0.5 * 0.5 / 2.500001, 1e-15);  // the norm is that of the mean gradient, not of the sum
}

TEST(Optimizer, RefusesWhatMakesNoSense) {
  const auto refused = [](const char* deck) {
    OptimizerConfig config;
    EXPECT_THROW(read_config(parse_deck(deck, "test"), config), DeckError) << deck;
  };
  refused("{nesterov: true}");
  refused("{type: adamw, betas: [0.9]}");
  refused("{type: adamw, betas: [0.9, 1]}");
  refused("{type: adamw, epsilon: 0}");
  refused("{type: adamw, momentum: 0.9}");
  refused("{clip_norm: -1}");
  refused("{clip_value: -1}");
  refused("{dampening: 0.1}");
  refused("{momentum: 0.9, nesterov: true, dampening: 0.1}");
  refused("{type: lion, betas: [0.9]}");
  refused("{type: lars, trust_coefficient: 0}");
  refused("{type: adafactor, epsilons: [1.0e-15]}");
  refused("{type: adafactor, clip_threshold: 0}");
  refused("{groups: [{weight_decay: 0}]}");
  refused("{groups: [{match: a, momentum: 0}]}");
  refused("{groups: {match: a}}");
}

const char* const two_layers =
    "[{linear: {features: 5}, name: one}, {layer_norm: {}, name: norm}, {linear: {features: 3}, name: two}]";

/// By how much a step with gradients of 1 reduces the elements of each parameter, all of which are 1.
std::map<std::string, std::vector<double>> steps_of(const std::string& deck) {
  OptimizerConfig config;
  read_config(parse_deck(deck, "test"), config);
  ParameterBuffer parameters(Graph(test::parse_layers(two_layers), {4}).layer_specs(), DType::f64);
  for (const Parameter& parameter : parameters.parameters()) {
    const std::vector<double> ones(static_cast<std::size_t>(parameter.range.count), 1);
    test::set_values(parameters.values(parameter), ones);
    test::set_values(parameters.gradients(parameter), ones);
  }
  const auto optimizer = config.make(parameters);
  const UpdateScalarsMemory scalars;
  optimizer->step(
      ExecSpace(), parameters,
      scalars.set(ExecSpace(),
                  {.coefficients = optimizer->coefficients({.learning_rate = 0.5, .learning_rate_before = 0.5})}));
  ExecSpace().fence();
  std::map<std::string, std::vector<double>> steps;
  for (const Parameter& parameter : parameters.parameters())
    for (const double value : test::values_of(parameters.values(parameter))) steps[parameter.name].push_back(1 - value);
  return steps;
}

void expect_steps(const std::string& deck, const std::map<std::string, double>& wanted) {
  SCOPED_TRACE(deck);
  const auto steps = steps_of(deck);
  ASSERT_EQ(steps.size(), 6u);
  for (const auto& [name, step] : wanted)
    for (const double element : steps.at(name)) EXPECT_NEAR(element, step, 1e-14) << name;
}

TEST(ParameterGroups, TheFirstThatMatchesCounts) {
  expect_steps(
      "{weight_decay: 1, groups: [{match: two/*, weight_decay: 3}, {match: '*/bias', learning_rate_scale: 0.5}]}",
      {{"one/weight", 0.5 * 2},
       {"one/bias", 0.25 * 2},
       {"norm/weight", 0.5 * 2},
       {"norm/bias", 0.25 * 2},
       {"two/weight", 0.5 * 4},
       {"two/bias", 0.5 * 4}});
  expect_steps("{groups: [{match: 'one/*', learning_rate_scale: 0}]}",
               {{"one/weight", 0}, {"one/bias", 0}, {"two/bias", 0.5}});
}

TEST(ParameterGroups, BiasesAndNormsMayBeExcluded) {
  expect_steps("{weight_decay: 1, exclude_bias_and_norm: true, groups: [{match: two/bias, weight_decay: 2}]}",
               {{"one/weight", 1},
                {"one/bias", 0.5},
                {"norm/weight", 0.5},
                {"norm/bias", 0.5},
                {"two/weight", 1},
                {"two/bias", 1.5}});
  // A parameter that is not excluded moves by lr·η·‖p‖/(‖g‖ + ‖p‖)·(g + p), the others by lr·g.
  expect_steps("{type: lars, weight_decay: 1, trust_coefficient: 0.1}",
               {{"one/weight", 0.05}, {"one/bias", 0.5}, {"norm/weight", 0.5}});
  expect_steps("{type: lars, weight_decay: 1, trust_coefficient: 0.1, exclude_bias_and_norm: false}",
               {{"one/weight", 0.05}, {"one/bias", 0.05}});
  // Adam's first update is 1; LAMB's is ‖p‖/‖u‖·u, which is 1 too, as all elements of p are 1 and those of u are equal.
  expect_steps("{type: lamb, weight_decay: 1, epsilon: 1e-300}", {{"one/weight", 0.5}, {"one/bias", 0.5}});
  expect_steps("{type: adamw, weight_decay: 1, epsilon: 1e-300}", {{"one/weight", 1}, {"one/bias", 0.5}});
  expect_steps("{type: adamw, weight_decay: 1, epsilon: 1e-300, exclude_bias_and_norm: false}",
               {{"one/weight", 1}, {"one/bias", 1}});
}

TEST(ParameterGroups, RefusesWhatMatchesNothing) {
  for (const auto& [deck, words] :
       {std::pair("{groups: [{match: three/*}]}", "'three/*' matches no trained parameter"),
        {"{groups: [{match: '*'}, {match: one/*}]}", "or only those that earlier entries have taken"}}) {
    try {
      steps_of(deck);
      FAIL() << deck;
    } catch (const KeyError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

TEST(Lars, TheVelocityFollowsTheLearningRate) {
  OptimizerConfig config;
  read_config(parse_deck("{type: lars, momentum_correction: true}", "test"), config);
  ParameterBuffer parameters(Graph(test::parse_layers(two_layers), {4}).layer_specs(), DType::f64);
  EXPECT_EQ(config.make(parameters)->coefficients({.learning_rate = 0.6, .learning_rate_before = 0.2, .number = 7})[1],
            0.6 / 0.2);
}

/// Large parameters are cut into blocks, of which a rank has those that it owns.
TEST(ParameterGroups, CutsIntoBlocks) {
  ParameterLayout layout(Graph(test::parse_layers("[{linear: {features: 100}, name: a}]"), {100}).layer_specs(),
                         DType::f32);
  const ParameterGroups all(layout, {}, {}, true);
  ASSERT_EQ(all.blocks.size(), 4u);  // 10,000 in three blocks, 100 in one
  EXPECT_EQ(all.groups.size(), 2u);
  EXPECT_EQ(all.all_blocks(), 4);
  layout.own({{100, 50}, {5000, 4200}});
  const ParameterGroups some(layout, {}, {}, false);
  std::int64_t state = 0;
  for (const ParameterBlock& block : some.blocks) {
    EXPECT_EQ(block.state, state);
    state += block.count;
  }
  EXPECT_EQ(state, 4250);
}

TEST(Optimizer, AdamWHasItsOwnDefaults) {
  OptimizerConfig config;
  EXPECT_EQ(config.rule().learning_rate, 0.1);
  read_config(parse_deck("{type: adamw}", "test"), config);
  EXPECT_EQ(config.rule().learning_rate, 1e-3);
  OptimizerConfig again;
  read_config(parse_deck(write_config(config), "test"), again);
  EXPECT_EQ(write_config(again), write_config(config));
}

}  // namespace
}  // namespace lockstep
