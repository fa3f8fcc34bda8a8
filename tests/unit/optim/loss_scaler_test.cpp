// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/loss_scaler.hpp"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

LossScaleConfig scale_config_of(const std::string& deck) {
  LossScaleConfig config;
  read_config(parse_deck(deck, "test"), config);
  return config;
}

void update(LossScaler& scaler, bool overflow) {
  const LossScaleRule& rule = scaler.rule();
  scaler.set_state(overflow ? rule.after_overflow(scaler.state()) : rule.after_good_step(scaler.state()));
}

TEST(Golden, LossScales) {
  for (const Json& golden : Json::parse(test::read_golden("loss_scales.json"))) {
    Json deck = golden.at("options");
    deck["floor"] = 1e-6;  // PyTorch has no floor
    LossScaler scaler(scale_config_of(deck.dump()));
    const auto overflows = golden.at("overflows").get<std::set<int>>();
    for (int step = 0; step < 200; ++step) {
      update(scaler, overflows.count(step) > 0);
      ASSERT_EQ(scaler.scale(), golden.at("scales")[static_cast<std::size_t>(step)].get<double>()) << "step " << step;
    }
  }
}

TEST(LossScaler, HysteresisForgivesSomeOverflows) {
  LossScaler scaler(scale_config_of("{initial: 1024, interval: 3, hysteresis: 2}"));
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 1024);
  for (int i = 0; i < 2; ++i) update(scaler, false);
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 512);
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 256) << "used up until the scale grows";
  for (int i = 0; i < 3; ++i) update(scaler, false);
  EXPECT_EQ(scaler.scale(), 512);
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 512) << "restored";
}

TEST(LossScaler, StaysAboveTheFloor) {
  LossScaler scaler(scale_config_of("{initial: 20, floor: 8}"));
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 10);
  EXPECT_FALSE(scaler.rule().at_floor(scaler.state()));
  update(scaler, true);
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_TRUE(scaler.rule().at_floor(scaler.state()));
}

TEST(LossScaler, GoesOnFromItsState) {
  const LossScaleConfig config = scale_config_of("{interval: 5, hysteresis: 3}");
  LossScaler scaler(config), other(config);
  for (int step = 0; step < 40; ++step) {
    restore_state(state_text([&](StateFields& fields) { scaler.describe_state(fields); }),
                  [&](StateFields& fields) { other.describe_state(fields); });
    update(scaler, step % 7 == 3);
    update(other, step % 7 == 3);
    EXPECT_EQ(other.state(), scaler.state());
  }
}

TEST(LossScaler, RefusesWhatMakesNoSense) {
  for (const char* deck :
       {"{growth: 1}", "{backoff: 1}", "{interval: 0}", "{hysteresis: 0}", "{floor: 0}", "{initial: 4, floor: 8}"})
    EXPECT_THROW(scale_config_of(deck), DeckError) << deck;
}

}  // namespace
}  // namespace lockstep
