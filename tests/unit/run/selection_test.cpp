// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/selection.hpp"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.hpp"

#include <limits>

namespace lockstep {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Metrics metrics(double loss, double accuracy) { return {.loss = loss, .accuracy = accuracy}; }

Selection::Options keeping(ValidationMetric metric, std::int64_t count) {
  return {.keep_best = {.present = true, .metric = metric, .count = count}};
}

using Steps = std::vector<std::int64_t>;

TEST(Selection, KeepsTheBestInTheirOrder) {
  Selection by_loss(keeping("validation_loss", 2));
  EXPECT_TRUE(by_loss.inspect(10, metrics(0.5, 0.1)));
  EXPECT_TRUE(by_loss.inspect(20, metrics(0.3, 0.1)));
  EXPECT_EQ(by_loss.best_steps(), (Steps{20, 10}));
  EXPECT_FALSE(by_loss.inspect(30, metrics(0.6, 0.9)));
  EXPECT_FALSE(by_loss.inspect(40, metrics(0.5, 0.9))) << "of equals the earlier one stays";
  EXPECT_FALSE(by_loss.inspect(50, metrics(nan, 0.9)));
  EXPECT_TRUE(by_loss.inspect(60, metrics(0.4, 0.1)));
  EXPECT_EQ(by_loss.best_steps(), (Steps{20, 60}));
  EXPECT_EQ(by_loss.best().evaluation.step, 20);

  Selection by_accuracy(keeping("validation_accuracy", 1));
  EXPECT_TRUE(by_accuracy.inspect(10, metrics(0.5, 0.1)));
  EXPECT_TRUE(by_accuracy.inspect(20, metrics(0.6, 0.2)));
  EXPECT_FALSE(by_accuracy.inspect(30, {.loss = 0.1}));
  EXPECT_EQ(by_accuracy.best_steps(), Steps{20});
}

TEST(Selection, EndsARunThatDoesNotImprove) {
  Selection selection({.patience = {.present = true, .evaluations = 2}});
  for (const double loss : {1.0, 1.1, 0.9, nan}) {
    selection.inspect(1, metrics(loss, 0));
    EXPECT_FALSE(selection.ends_run()) << loss;
  }
  selection.inspect(2, metrics(0.9, 0));
  EXPECT_TRUE(selection.out_of_patience());
  EXPECT_NE(selection.reason().find("validation_loss has not improved in 2 evaluations since 0.9 at step 1"),
            std::string::npos);
}

TEST(Selection, AnEvaluationWithoutATargetThatCountsDecidesNothing) {
  Selection::Options options = keeping("validation_loss", 1);
  options.patience = {.present = true, .evaluations = 1};
  options.target = {.present = true, .metric = "validation_loss", .value = 0.5};
  Selection selection(options);
  Metrics nothing = metrics(nan, nan);
  nothing.has_loss = false;
  for (const std::int64_t step : {1, 2, 3}) EXPECT_FALSE(selection.inspect(step, nothing));
  EXPECT_FALSE(selection.ends_run());
  EXPECT_TRUE(selection.best_steps().empty());
}

TEST(Selection, TargetsAreReachedFromTheirSide) {
  Selection loss({.target = {.present = true, .metric = "validation_loss", .value = 0.5}});
  loss.inspect(1, metrics(nan, 1));
  EXPECT_FALSE(loss.ends_run());
  loss.inspect(1, metrics(0.5, 0));
  EXPECT_TRUE(loss.target_reached());
  Selection accuracy({.target = {.present = true, .metric = "validation_accuracy", .value = 0.5}});
  accuracy.inspect(1, metrics(0, 0.49));
  EXPECT_FALSE(accuracy.ends_run());
  accuracy.inspect(1, metrics(0, 0.5));
  EXPECT_TRUE(accuracy.target_reached());
}

TEST(Selection, RemembersWhatItStillLooksFor) {
  Selection::Options options = keeping("validation_loss", 2);
  options.patience = {.present = true, .evaluations = 2};
  options.target = {.present = true, .metric = "validation_accuracy", .value = 0.5};
  Selection first(options);
  for (const auto& [step, loss] : {std::pair(10, 0.3), {20, 0.2}, {30, 0.25}, {40, 0.7}})
    first.inspect(step, metrics(loss, 0.6));
  EXPECT_TRUE(first.target_reached() && first.out_of_patience());
  const auto restored = [&](const Selection::Options& wanted) {
    Selection selection(wanted);
    restore_state(state_text([&](StateFields& fields) { first.describe_state(fields); }),
                  [&](StateFields& fields) { selection.describe_state(fields); });
    return selection;
  };

  const Selection same = restored(options);
  EXPECT_TRUE(same.target_reached() && same.out_of_patience());
  EXPECT_EQ(same.best_steps(), (Steps{20, 30}));

  options.patience.evaluations = 3;
  options.target.value = 0.7;
  options.keep_best.count = 1;
  const Selection wants_more = restored(options);
  EXPECT_FALSE(wants_more.ends_run());
  EXPECT_EQ(wants_more.best_steps(), Steps{20});

  options.keep_best.metric = options.patience.metric = "validation_accuracy";
  options.patience.evaluations = 1;
  const Selection wants_other = restored(options);
  EXPECT_FALSE(wants_other.ends_run());
  EXPECT_TRUE(wants_other.best_steps().empty());
}

}  // namespace
}  // namespace lockstep
