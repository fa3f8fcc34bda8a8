// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/loss_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/checkpoint.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// A loss about 2, with a deviation of 0.1.
double usual(int step) { return 2 + 0.1 * (step % 2 == 0 ? 1 : -1); }

LossWatch after(int steps, LossWatchConfig config = {}) {
  LossWatch watch(config);
  for (int step = 0; step < steps; ++step) EXPECT_EQ(watch.inspect(usual(step)), "");
  return watch;
}

TEST(LossWatch, NamesJumpsAndWhatIsNotFinite) {
  LossWatch watch = after(40);
  EXPECT_EQ(watch.inspect(2 + 7.9 * 0.1), "");
  watch = after(40);
  EXPECT_THAT(watch.inspect(2 + 8.1 * 0.1),
              HasSubstr("the loss is 2.81, 8.1 standard deviations above 2, the mean of the 40 steps before"));
  EXPECT_EQ(watch.inspect(-50), "") << "down is no anomaly";
  EXPECT_THAT(after(0).inspect(std::nan("")), HasSubstr("the loss is nan"));
  EXPECT_THAT(after(0).inspect(std::numeric_limits<double>::infinity()), HasSubstr("the loss is inf"));
}

TEST(LossWatch, AnAnomalyIsNotComparedWith) {
  LossWatch watch = after(40);
  for (int i = 0; i < 10; ++i) EXPECT_NE(watch.inspect(1000), "");
  EXPECT_EQ(watch.losses().size(), 40u);
}

TEST(LossWatch, KeepsAWindow) {
  LossWatchConfig config;
  config.window = 25;
  LossWatch watch = after(60, config);
  ASSERT_EQ(watch.losses().size(), 25u);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(watch.losses()[static_cast<std::size_t>(i)], usual(35 + i));
  // After a window of lower losses, the old ones are forgotten.
  for (int i = 0; i < 25; ++i) EXPECT_EQ(watch.inspect(1 + 0.01 * (i % 2)), "");
  EXPECT_NE(watch.inspect(2), "") << "what was usual once";
}

TEST(LossWatch, GoesOnWithASmallerWindow) {
  LossWatchConfig config;
  config.window = 60;
  LossWatch before = after(60, config);
  config.window = 25;
  LossWatch watch(config);
  restore_state(state_text([&](StateFields& fields) { before.describe_state(fields); }),
                [&](StateFields& fields) { watch.describe_state(fields); });
  EXPECT_EQ(watch.inspect(2), "");
  ASSERT_EQ(watch.losses().size(), 25u);
  EXPECT_EQ(watch.losses()[0], usual(36));
}

TEST(LossWatch, FewOrEqualLossesSayLittle) {
  EXPECT_EQ(after(19).inspect(1000), "");
  LossWatch watch(LossWatchConfig{});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(watch.inspect(2), "");
  EXPECT_EQ(watch.inspect(2.001), "");
  EXPECT_NE(watch.inspect(2.5), "");
}

TEST(LossWatch, GoesOnAFewTimes) {
  LossWatchConfig config;
  config.at_most = 2;
  LossWatch watch(config);
  for (const bool may : {true, true, false}) {
    EXPECT_EQ(watch.may_continue(), may);
    watch.count();
  }
  LossWatch restarted(config);
  restarted.set_anomalies(2);
  EXPECT_FALSE(restarted.may_continue()) << "those before a restart count";
}

}  // namespace
}  // namespace lockstep
