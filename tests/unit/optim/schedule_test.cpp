// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

ScheduleConfig config_of(const char* deck) {
  ScheduleConfig config;
  read_config(parse_deck(deck, "test"), config);
  return config;
}

TEST(Schedule, WarmsUpLinearly) {
  EXPECT_EQ(ScheduleConfig().factor(0, 10), 1.0);
  for (const char* deck : {"{warmup_steps: 4}", "{type: cosine, warmup_steps: 4}"}) {
    const ScheduleConfig config = config_of(deck);
    EXPECT_EQ(config.factor(0, 100), 0.25);
    EXPECT_EQ(config.factor(2, 100), 0.75);
    EXPECT_EQ(config.factor(3, 100), 1.0);
    EXPECT_EQ(config.factor(4, 100), 1.0);
  }
  EXPECT_EQ(config_of("{warmup_steps: 4}").factor(1000, 2000), 1.0);
}

/// The usual multiplier for PyTorch's LambdaLR.
TEST(Schedule, FallsAlongACosine) {
  const ScheduleConfig config = config_of("{type: cosine, warmup_steps: 10, final_fraction: 0.1}");
  for (std::int64_t step = 10; step < 110; ++step) {
    const double progress = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(config.factor(step, 110), 0.1 + 0.9 * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)), 1e-15);
  }
  EXPECT_NEAR(config.factor(60, 110), 0.55, 1e-15);
  EXPECT_NEAR(config.factor(110, 110), 0.1, 1e-15);
  EXPECT_NEAR(config.factor(5000, 110), 0.1, 1e-15);
}

TEST(Schedule, WarmUpAsLongAsTheRun) {
  const ScheduleConfig config = config_of("{type: cosine, warmup_steps: 10}");
  EXPECT_EQ(config.factor(9, 10), 1.0);
  EXPECT_EQ(config.factor(4, 5), 0.5);
}

TEST(Schedule, RefusesAnEndOfWhatStaysConstant) { EXPECT_THROW(config_of("{final_fraction: 0.1}"), DeckError); }

}  // namespace
}  // namespace lockstep
