// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On devices, the host learns the outcome of a step one step later, unless something needs it before. The results of a
// run must not depend on how often that happens. (On hosts, the outcome is always known at once.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "train/update_coefficients.hpp"

namespace lockstep {
namespace {

test::RunOutcome logged_every(int steps, const std::string& deck) {
  return test::train_to_the_end(fmt::format(fmt::runtime(deck), steps));
}

constexpr const char* overflowing =
    "{{data: {{synthetic: {{kind: random, shape: [6, 6, 3], classes: 5, train: 96, validation: 20}}}},"
    " model: {{layers: [{{conv2d: {{filters: 4, kernel: 3}}}}, batch_norm, relu, flatten, {{linear: {{features: 5}}}}]}},"
    " optimizer: {{type: adamw, learning_rate: 0.01, clip_norm: 1, ema_decay: 0.9}},"
    " schedule: {{type: cosine, warmup: 5 steps}}, batch: {{global: 12, micro: 5}},"
    " precision: {{compute: fp16, loss_scale: {{initial: 1.0e+8, interval: 4}}}},"
    " run: {{steps: 40, log_every: {}, evaluate_every: 2}}}}";

TEST(DeferredOutcome, OverflowsAreLeftOutAllTheSame) {
  const test::RunOutcome often = logged_every(1, overflowing), rarely = logged_every(7, overflowing);
  EXPECT_LT(often.applied, often.steps - 3) << "none overflows";
  EXPECT_EQ(often.steps, 40);
  test::expect_the_same(rarely, often);
}

/// A deck with overflows of fp16, and a batch that is halved after `ramp` steps.
std::string ramped(std::int64_t ramp, const std::string& optimizer, const std::string& schedule, const char* scale,
                   std::int64_t steps = 30) {
  return fmt::format(
      "{{data: {{synthetic: {{kind: random, shape: [40], classes: 5, train: 96, validation: 20}}}},"
      " model: {{layers: [{{linear: {{features: 8}}}}, relu, {{linear: {{features: 5}}}}]}},"
      " optimizer: {{{}}}, schedule: {{{}}}, batch: {{global: 24, ramp: [[{} steps, 12]]}},"
      " precision: {{compute: fp16, loss_scale: {{{}}}}},"
      " run: {{steps: {}, log_every: 10, evaluate_every: 0}}}}",
      optimizer, schedule, ramp, scale, steps);
}

constexpr const char* by_batch = "scale_rule: linear, reference_batch: 24";

std::string halved_after(std::int64_t applied) {
  return fmt::format("type: multistep, milestones: [{} steps], factor: 0.5", applied);
}

void expect_same_steps(const test::RunOutcome& ruled, const test::RunOutcome& wanted) {
  EXPECT_EQ(ruled.applied, wanted.applied);
  EXPECT_EQ(ruled.parameters, wanted.parameters);
  EXPECT_EQ(ruled.states, wanted.states);
}

/// A batch's stage, and with it the factor of scale_rule, begins after a number of steps, skipped ones included. A
/// schedule that does the same without scale_rule counts the applied steps.
TEST(SkippedSteps, LeaveEachBatchItsLearningRate) {
  const auto outcome = [](std::int64_t ramp, double rate, const std::string& schedule, int steps = 30) {
    return test::train_to_the_end(ramped(ramp, fmt::format("type: sgd, learning_rate: {}, momentum: 0.9", rate),
                                         schedule, "initial: 1.0e+9", steps));
  };
  const std::int64_t applied = outcome(20, 0.25, "", 20).applied;
  ASSERT_GT(applied, 0);
  ASSERT_LT(applied, 17);
  expect_same_steps(outcome(20, 0.25, by_batch), outcome(20, 0.25, halved_after(applied)));
  expect_same_steps(outcome(2, 0.25, by_batch), outcome(2, 0.125, ""));
}

constexpr const char* lars = "type: lars, learning_rate: 0.25, momentum: 0.9, momentum_correction: true";

/// The first step on a new batch is skipped, so that the velocity is still of steps on the old batch.
TEST(SkippedSteps, LeaveAVelocityItsCorrection) {
  const auto outcome = [](std::int64_t ramp, const std::string& schedule, std::int64_t steps = 30) {
    return test::train_to_the_end(ramped(ramp, lars, schedule, "initial: 1.0e+9, interval: 2", steps));
  };
  std::int64_t ramp = 20;
  const auto applied_in = [&](std::int64_t steps) { return outcome(ramp, by_batch, steps).applied; };
  while (ramp < 28 && applied_in(ramp + 1) > applied_in(ramp)) ++ramp;
  ASSERT_LT(ramp, 28) << "no step is skipped";
  const std::int64_t applied = applied_in(ramp);
  ASSERT_GT(applied, 2);
  expect_same_steps(outcome(ramp, by_batch), outcome(ramp, halved_after(applied)));
}

/// The coefficients for `applied` applied steps, each time after the host has heard of another of `numbers`.
std::vector<StepCoefficients> coefficients_behind(const std::vector<KnownSteps>& numbers, std::int64_t applied) {
  const test::TemporaryFolder folder;
  const Communicator comm = Communicator::world();
  const RunConfig config = test::read_run_config(ramped(4, lars, by_batch, "initial: 8"),
                                                 (folder.path() / "run").string());
  TrainingRun run(config, comm);
  UpdateCoefficients steps(config, comm, run.trainer().optimizer(), run_length(config, 96));
  const ExecSpace space;
  std::vector<StepCoefficients> found;
  for (const KnownSteps& known : numbers) {
    steps.provide(space, known);
    HostCopy<CoefficientTable> table;
    table.start(space, steps.update_options(space, run.trainer().strategy()).coefficients);
    const CoefficientTable& copy = table.take();
    found.push_back(copy.of_step[applied - copy.first]);
  }
  return found;
}

/// The fifth step is the first one on a new batch, and is skipped. The host hears of it at once, or after the next
/// step, or resumes from a checkpoint in between.
TEST(SkippedSteps, HaveTheSameCoefficientsBehindThemWheneverTheHostHears) {
  const StepCoefficients wanted{0.125, 0.5};
  const KnownSteps skipped{.count = {.done = 5, .skipped = 1, .skipped_in_a_row = 1}};
  const std::vector<StepCoefficients> at_once = coefficients_behind({{{.done = 3}}, {{.done = 4}}, skipped}, 4),
                                      resumed = coefficients_behind({skipped}, 4),
                                      late = coefficients_behind(
                                          {{{.done = 3}, 1},
                                           {{.done = 4}, 1},
                                           {{.done = 5}, 1},
                                           {{.done = 6, .skipped = 1, .skipped_in_a_row = 1}, 1}},
                                          4);
  for (const auto& found : {at_once, resumed, late})
    for (std::size_t i = found.size() > 1 ? 1 : 0; i < found.size(); ++i) EXPECT_EQ(found[i], wanted) << i;
  const StepCoefficients unchanged{0.125, 1};
  EXPECT_EQ(coefficients_behind({{{.done = 5}, 1}}, 5), std::vector{unchanged}) << "where it was applied";
  const std::vector<KnownSteps> after{{{.done = 6, .skipped = 1}},
                                      {{.done = 6, .skipped = 1, .skipped_in_a_row = 1}, 1}};
  EXPECT_EQ(coefficients_behind(after, 5), (std::vector{unchanged, unchanged})) << "after the next one";
}

TEST(SkippedSteps, InARowAreInTheState) {
  StepCount count{.done = 9, .skipped = 4, .skipped_in_a_row = 2}, found{.skipped_in_a_row = 1};
  restore_state(state_text([&](StateFields& fields) { count.describe_state(fields); }),
                [&](StateFields& fields) { found.describe_state(fields); });
  EXPECT_EQ(found.skipped_in_a_row, 2);
  restore_state(R"({"step": 9, "skipped_steps": 4})", [&](StateFields& fields) { found.describe_state(fields); });
  EXPECT_EQ(found.skipped_in_a_row, 0) << "of checkpoints that do not say";
}

constexpr const char* diverging =
    "{{data: {{synthetic: {{kind: linear, features: 5, train: 60, validation: 10}}}},"
    " model: {{layers: [{{linear: {{features: 3}}}}, {{linear: {{features: 1}}}}]}}, loss: {{type: mse}},"
    " optimizer: {{type: sgd, learning_rate: 30.0, momentum: 0.5}}, batch: {{global: 10}},"
    " run: {{steps: 200, log_every: {}, evaluate_every: 0}}}}";

TEST(DeferredOutcome, ARunThatCannotGoOnEndsInTheSameState) {
  const test::RunOutcome often = logged_every(1, diverging), rarely = logged_every(1000, diverging);
  EXPECT_NE(often.failure.find("not finite"), std::string::npos) << often.failure;
  test::expect_the_same(rarely, often);
}

/// If each rank is a group of its own, with the whole model, each counts the gradients that are not finite.
TEST(DeferredOutcome, GroupsThatDivideTheModelTellOfItOnce) {
  const std::string failure =
      logged_every(1,
                   "{{data: {{synthetic: {{kind: linear, features: 5, train: 60}}}}, loss: {{type: mse}},"
                   " model: {{layers: [{{linear: {{features: 3}}}}, {{linear: {{features: 1}}}}]}},"
                   " optimizer: {{type: sgd, learning_rate: 1.0e+30}}, batch: {{global: 10}},"
                   " parallel: {{shard: optimizer, shard_group: 1}}, run: {{steps: 5, log_every: {}}}}}")
          .failure;
  EXPECT_NE(failure.find("the gradient of layer"), std::string::npos) << failure;
  EXPECT_NE(failure.find("(100 %)"), std::string::npos) << failure;
}

}  // namespace
}  // namespace lockstep
