// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

TEST(Golden, Sgd) {
  for (const Json& golden : Json::parse(test::read_golden("optimizers.json"))) {
    OptimizerConfig config;
    Json deck = golden.at("options");
    deck["type"] = "sgd";
    read_config(parse_deck(deck.dump(), "test"), config);  // JSON is YAML
    for (const DType dtype : {DType::f32, DType::f64}) {
      ParameterBuffer parameters(Graph(test::parse_layers("[{linear: {features: 1, bias: false}}]"), {23}), dtype);
      const Parameter& weight = parameters.parameters().at(0);
      test::set_values(parameters.values(weight), test::filling(300, 23));
      const auto optimizer = config.make(parameters);
      EXPECT_EQ(optimizer->states().size(), config.state_names().size());
      for (std::uint64_t step = 0; step < 10; ++step) {
        test::set_values(parameters.gradients(weight), test::filling(301 + step, 23));
        optimizer->step(ExecSpace(), parameters, 0.1, 1.0 / 16);
        ExecSpace().fence();
      }
      EXPECT_LT(test::largest_difference(test::values_of(parameters.values(weight)), golden.at("p").get<std::vector<double>>()),
                dtype == DType::f64 ? 1e-14 : 1e-6)
          << golden.at("options");
      const auto all = test::values_of(parameters.values());
      EXPECT_EQ(std::vector<double>(all.begin() + 23, all.end()), std::vector<double>(all.size() - 23, 0.0)) << "gaps stay zero";
    }
  }
}

TEST(Sgd, RefusesNesterovWithoutMomentum) {
  OptimizerConfig config;
  EXPECT_THROW(read_config(parse_deck("{nesterov: true}", "test"), config), DeckError);
}

TEST(Schedule, WarmsUpLinearly) {
  ScheduleConfig config;
  EXPECT_EQ(config.factor(0), 1.0);
  read_config(parse_deck("{warmup_steps: 4}", "test"), config);
  EXPECT_EQ(config.factor(0), 0.25);
  EXPECT_EQ(config.factor(2), 0.75);
  EXPECT_EQ(config.factor(3), 1.0);
  EXPECT_EQ(config.factor(1000), 1.0);
}

}  // namespace
}  // namespace lockstep
