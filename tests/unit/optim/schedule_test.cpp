// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

ScheduleConfig schedule_config(const std::string& deck) {
  ScheduleConfig config;
  read_config(parse_deck(deck, "test"), config);
  return config;
}

/// The length of a run with 10 steps an epoch, and 100 examples a step.
RunLength length_of(std::int64_t steps) { return {1000, false, {{.batch = 100}}, std::nullopt, steps}; }

LearningRateSchedule schedule_of(const std::string& deck, std::int64_t steps) {
  return {schedule_config(deck), length_of(steps)};
}

void expect_refused(const std::string& deck, const char* why, std::int64_t steps = 100) {
  try {
    schedule_of(deck, steps);
    FAIL() << deck << " is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Schedule, WarmsUpLinearly) {
  EXPECT_EQ(schedule_of("{}", 10).factor(0), 1.0);
  for (const char* deck :
       {"{warmup: 4 steps}", "{type: cosine, warmup: 4 steps}", "{warmup: 400 examples}", "{warmup: 0.4 epochs}"}) {
    const LearningRateSchedule schedule = schedule_of(deck, 100);
    EXPECT_EQ(schedule.factor(0), 0.25);
    EXPECT_EQ(schedule.factor(2), 0.75);
    EXPECT_EQ(schedule.factor(3), 1.0);
    EXPECT_EQ(schedule.factor(4), 1.0);
  }
  EXPECT_NEAR(schedule_of("{warmup: 4 steps, warmup_start: 0.2}", 100).factor(1), 0.6, 1e-15);
  EXPECT_EQ(schedule_of("{type: cosine, warmup: 10 steps}", 10).factor(9), 1.0);
  EXPECT_EQ(schedule_of("{type: cosine, warmup: 10 steps}", 5).factor(4), 0.5);
}

/// The learning rate's course follows the steps that are applied, the batch follows all steps.
TEST(Schedule, SkippedStepsDoNotDelayTheBatch) {
  const RunLength length(1000, false, {{.batch = 100}, {{6, TrainingSpan::Unit::steps}, 200}}, std::nullopt, 20);
  const LearningRateSchedule schedule(schedule_config("{warmup: 4 steps, scale_rule: linear, reference_batch: 100}"),
                                      length);
  EXPECT_EQ(schedule.factor(2, 5), 0.75);
  EXPECT_EQ(schedule.factor(2, 6), 2 * 0.75);
  EXPECT_EQ(schedule.factor(6), 2);
}

TEST(Schedule, FractionsOfEpochsAreNotALittleLate) {
  const LearningRateSchedule halved = schedule_of("{type: step, every: 0.1 epochs, factor: 0.5}", 50);
  for (int step = 0; step < 50; ++step) EXPECT_EQ(halved.factor(step), std::ldexp(1.0, -step)) << step;
  const LearningRateSchedule thrice = schedule_of(
      "{type: multistep, milestones: [1.1 epochs, 1.3 epochs, 1.6 epochs], factor: 0.5}", 50);
  for (const auto& [step, factor] : {std::pair(10, 1.0), {11, 0.5}, {12, 0.5}, {13, 0.25}, {15, 0.25}, {16, 0.125}})
    EXPECT_EQ(thrice.factor(step), factor) << step;
  const LearningRateSchedule periods = schedule_of("{type: cosine, period: 0.3 epochs}", 60);
  for (int step = 0; step < 60; ++step) EXPECT_EQ(periods.factor(step), periods.factor(step % 3)) << step;
}

/// Each course on a run of 10 epochs, as by PyTorch's schedulers where they exist (golden/make_golden.py).
TEST(Golden, Schedules) {
  for (const auto& golden : nlohmann::json::parse(test::read_golden("schedules.json"))) {
    SCOPED_TRACE(golden.at("deck").get<std::string>());
    const auto factors = golden.at("factors").get<std::vector<double>>();
    const LearningRateSchedule schedule = schedule_of(golden.at("deck"), static_cast<std::int64_t>(factors.size()));
    for (std::size_t step = 0; step < factors.size(); ++step)
      EXPECT_NEAR(schedule.factor(static_cast<std::int64_t>(step)), factors[step], 1e-13) << "step " << step;
  }
}

/// The factor is that of the usual cosine function for PyTorch's LambdaLR.
TEST(Schedule, FallsAlongACosine) {
  const LearningRateSchedule schedule = schedule_of("{type: cosine, warmup: 10 steps, final_fraction: 0.1}", 110);
  for (std::int64_t step = 10; step < 110; ++step) {
    const double progress = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(schedule.factor(step), 0.1 + 0.9 * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)), 1e-15);
  }
  EXPECT_NEAR(schedule.factor(60), 0.55, 1e-15);
  EXPECT_NEAR(schedule.factor(110), 0.1, 1e-15);
  EXPECT_NEAR(schedule.factor(5000), 0.1, 1e-15);
}

TEST(Schedule, FallsOverAPartOfTheRun) {
  const LearningRateSchedule linear = schedule_of(
      "{type: linear, warmup: 10 steps, decay: 4 epochs, final_fraction: 0.2}", 100);
  EXPECT_EQ(linear.factor(10), 1.0);
  EXPECT_NEAR(linear.factor(30), 0.6, 1e-15);
  EXPECT_NEAR(linear.factor(50), 0.2, 1e-15);
  EXPECT_NEAR(linear.factor(99), 0.2, 1e-15);
  const LearningRateSchedule stable = schedule_of("{type: warmup_stable_decay, decay: 20 steps}", 100);
  EXPECT_EQ(stable.factor(80), 1.0);
  EXPECT_NEAR(stable.factor(85), 0.75, 1e-15);
  EXPECT_NEAR(stable.factor(99), 0.05, 1e-15);
  const LearningRateSchedule root = schedule_of("{type: warmup_stable_decay, decay: 20 steps, form: sqrt}", 100);
  EXPECT_NEAR(root.factor(85), 0.5, 1e-15);
}

TEST(Schedule, BeginsAnew) {
  const LearningRateSchedule schedule = schedule_of(
      "{type: cosine, warmup: 5 steps, period: 1 epoch, period_factor: 2}", 100);
  for (const std::int64_t begin : {5, 15, 35, 75}) EXPECT_EQ(schedule.factor(begin), 1.0) << begin;
  EXPECT_NEAR(schedule.factor(10), 0.5, 1e-15);
  EXPECT_NEAR(schedule.factor(25), 0.5, 1e-15);
  EXPECT_NEAR(schedule.factor(55), 0.5, 1e-15);
}

/// Two epochs of 10 steps, then two of 5: a length in epochs has as many steps as the epochs that it covers.
TEST(Schedule, EpochsOfARamp) {
  const RunLength length(1000, false, {{.batch = 100}, {{2, TrainingSpan::Unit::epochs}, 200}}, 4, std::nullopt);
  const auto with = [&](const char* deck) { return LearningRateSchedule(schedule_config(deck), length); };
  const LearningRateSchedule stable = with("{type: warmup_stable_decay, decay: 1 epoch}");
  EXPECT_EQ(stable.factor(25), 1.0);
  EXPECT_NEAR(stable.factor(26), 0.8, 1e-15);
  EXPECT_NEAR(stable.factor(29), 0.2, 1e-15);
  EXPECT_EQ(with("{type: warmup_stable_decay, decay: 3 epochs, warmup: 1 epoch}").factor(10), 1.0);
  EXPECT_THROW(with("{type: warmup_stable_decay, decay: 4 epochs, warmup: 1 epoch}"), Error);
  EXPECT_THROW(with("{type: warmup_stable_decay, decay: 31 steps}"), Error);
  const LearningRateSchedule anew = with("{type: cosine, period: 1 epoch}");
  for (const std::int64_t begin : {0, 10, 20, 25}) EXPECT_EQ(anew.factor(begin), 1.0) << begin;
  EXPECT_NEAR(anew.factor(5), 0.5, 1e-15);
  EXPECT_LT(anew.factor(24), 0.1);
}

TEST(Schedule, FollowsTheRootAndPoints) {
  const LearningRateSchedule root = schedule_of("{type: inverse_sqrt, warmup: 10 steps}", 100);
  EXPECT_EQ(root.factor(39), 0.5);
  EXPECT_EQ(root.factor(9), 1.0);
  EXPECT_LT(root.factor(8), 1.0);
  EXPECT_LT(root.factor(10), 1.0) << "its peak is one step";
  const LearningRateSchedule points = schedule_of("{type: points, points: [[0, 0.5], [2 epochs, 1], [100 steps, 0]]}",
                                                  100);
  EXPECT_EQ(points.factor(0), 0.5);
  EXPECT_EQ(points.factor(10), 0.75);
  EXPECT_EQ(points.factor(20), 1.0);
  EXPECT_EQ(points.factor(60), 0.5);
}

TEST(Schedule, FollowsTheBatch) {
  const RunLength length(1000, false, {{{}, 100}, {{2, TrainingSpan::Unit::epochs}, 400}}, std::nullopt, 100);
  const LearningRateSchedule linear(schedule_config("{scale_rule: linear, reference_batch: 200}"), length);
  EXPECT_EQ(linear.factor(19), 0.5);
  EXPECT_EQ(linear.factor(20), 2.0);
  const LearningRateSchedule root(schedule_config("{scale_rule: sqrt, reference_batch: 100}"), length);
  EXPECT_EQ(root.factor(19), 1.0);
  EXPECT_EQ(root.factor(20), 2.0);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  expect_refused("{final_fraction: 0.1}", "final_fraction");
  expect_refused("{warmup: 10}", "a length with its unit");
  expect_refused("{warmup_start: 0.1}", "has no effect without warmup");
  expect_refused("{type: one_cycle, warmup: 1 epoch}", "its own warm-up");
  expect_refused("{type: inverse_sqrt}", "schedule.warmup");
  expect_refused("{type: step, every: 0}", "is of length 0");
  expect_refused("{type: multistep}", "milestones");
  expect_refused("{type: warmup_stable_decay}", "decay");
  expect_refused("{type: warmup_stable_decay, decay: 95 steps, warmup: 1 epoch}", "together are longer than the run");
  expect_refused("{type: points, points: [[0, 1]]}", "two or more");
  expect_refused("{type: points, points: [[0, 1], [5 epochs, 0]]}", "ends at 5 epochs, before the end of the run");
  expect_refused("{type: points, points: [[0, 1], [20 steps, 0.5], [2 epochs, 0.5], [100 steps, 0]]}",
                 "put the points in order");
  expect_refused("{type: points, points: [[0, 1, 2]]}", "a pair");
  expect_refused("{scale_rule: linear}", "reference_batch");
  expect_refused("{reference_batch: 256}", "scale_rule");
  expect_refused("{type: cosine, period_factor: 2}", "has no effect without period");
}

}  // namespace
}  // namespace lockstep
