// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "optim/gradient_scale.hpp"
#include "optim/optimizer.hpp"
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

/// What the 16-bit copy should be.
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
      ParameterBuffer parameters(Graph(test::parse_layers("[{linear: {features: 1, bias: false}}]"), {23}), dtype);
      const Parameter& weight = parameters.parameters().at(0);
      test::set_values(parameters.values(weight), test::filling(300, 23));
      const auto optimizer = config.make(parameters);
      const GradientSquare square(parameters.trained_size());
      const GradientScale gradient_scale(config.clip_norm());
      ASSERT_EQ(optimizer->states().size(), config.state_names().size());
      for (std::size_t i = 0; i < optimizer->states().size(); ++i) {
        EXPECT_EQ(optimizer->states()[i].name, config.state_names()[i]);
        EXPECT_EQ(optimizer->states()[i].values.count(), parameters.trained_size());
      }
      for (std::uint64_t step = 0; step < 10; ++step) {
        test::set_values(parameters.gradients(weight), test::filling(301 + step, 23));
        optimizer->step(ExecSpace(), parameters,
                        {.coefficients = optimizer->coefficients(0.1, static_cast<std::int64_t>(step) + 1),
                         .gradient_scale = gradient_scale.compute(
                             ExecSpace(), square.compute(ExecSpace(), parameters.trained_gradients()), 1.0 / 16)});
        ExecSpace().fence();
      }
      EXPECT_LT(test::largest_difference(test::values_of(parameters.values(weight)),
                                         golden.at("p").get<std::vector<double>>()),
                dtype == DType::f64 ? 1e-14 : 1e-6);
      const auto all = test::values_of(parameters.values());
      EXPECT_EQ(std::vector<double>(all.begin() + 23, all.end()), std::vector<double>(all.size() - 23, 0.0))
          << "gaps stay zero";
      if (is_16_bit_type(dtype)) {
        EXPECT_EQ(test::values_of(parameters.rounded()), rounded(all, dtype));
      }
    }
  }
}

TEST(GradientScale, IsTheFactorUnlessItClips) {
  ParameterBuffer parameters(Graph(test::parse_layers("[{linear: {features: 1, bias: false}}]"), {4}), DType::f32);
  test::set_values(parameters.gradients(parameters.parameters().at(0)), {3, 0, 0, -4});
  const auto scale = [&](double clip_norm, double factor) {
    const GradientSquare square(parameters.trained_size());
    const GradientScale gradient_scale(clip_norm);
    const Tensor result = gradient_scale.compute(ExecSpace(),
                                                 square.compute(ExecSpace(), parameters.trained_gradients()), factor);
    ExecSpace().fence();
    return test::values_of(result)[0];
  };
  EXPECT_EQ(scale(0, 0.25), 0.25);
  EXPECT_EQ(scale(6, 1), 1.0);
  EXPECT_NEAR(scale(2, 1), 2 / 5.000001, 1e-15);
  EXPECT_NEAR(scale(0.5, 0.5), 0.5 * 0.5 / 2.500001, 1e-15);  // of the mean gradient, not of the sum
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
}

TEST(Optimizer, AdamWHasItsOwnDefaults) {
  OptimizerConfig config;
  EXPECT_EQ(config.learning_rate(), 0.1);
  read_config(parse_deck("{type: adamw}", "test"), config);
  EXPECT_EQ(config.learning_rate(), 1e-3);
  OptimizerConfig again;
  read_config(parse_deck(write_config(config), "test"), again);
  EXPECT_EQ(write_config(again), write_config(config));
}

}  // namespace
}  // namespace lockstep
