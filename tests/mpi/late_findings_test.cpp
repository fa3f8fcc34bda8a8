// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On devices the host hears a step later what has become of a step, unless something behind it wants to know. What a
// run leaves must not depend on how often that is. (On hosts there is nothing to find here.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mpi/run_outcome.hpp"

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

TEST(LateFindings, OverflowsAreLeftOutAllTheSame) {
  const test::RunOutcome often = logged_every(1, overflowing), rarely = logged_every(7, overflowing);
  EXPECT_LT(often.applied, often.steps - 3) << "none overflows";
  EXPECT_EQ(often.steps, 40);
  test::expect_the_same(rarely, often);
}

/// Batches come to their next stage behind as many steps whether these were skipped or not, and with them scale_rule's
/// factor. The course that the same run without that rule has to take counts those that were applied.
TEST(SkippedSteps, LeaveEachBatchItsLearningRate) {
  const auto outcome = [](std::int64_t ramp, double rate, const std::string& schedule, int steps = 30) {
    return test::train_to_the_end(fmt::format(
        "{{data: {{synthetic: {{kind: random, shape: [40], classes: 5, train: 96, validation: 20}}}},"
        " model: {{layers: [{{linear: {{features: 8}}}}, relu, {{linear: {{features: 5}}}}]}},"
        " optimizer: {{type: sgd, learning_rate: {}, momentum: 0.9}}, schedule: {{{}}},"
        " batch: {{global: 24, ramp: [[{} steps, 12]]}}, precision: {{compute: fp16, loss_scale: {{initial: 1.0e+9}}}},"
        " run: {{steps: {}, log_every: 10, evaluate_every: 0}}}}",
        rate, schedule, ramp, steps));
  };
  const auto expect_same = [](const test::RunOutcome& ruled, const test::RunOutcome& wanted) {
    EXPECT_EQ(ruled.applied, wanted.applied);
    EXPECT_EQ(ruled.parameters, wanted.parameters);
    EXPECT_EQ(ruled.states, wanted.states);
  };
  const std::string rule = "scale_rule: linear, reference_batch: 24";
  const std::int64_t applied = outcome(20, 0.25, "", 20).applied;
  ASSERT_GT(applied, 0);
  ASSERT_LT(applied, 17);
  expect_same(outcome(20, 0.25, rule),
              outcome(20, 0.25, fmt::format("type: multistep, milestones: [{} steps], factor: 0.5", applied)));
  expect_same(outcome(2, 0.25, rule), outcome(2, 0.125, ""));
}

constexpr const char* diverging =
    "{{data: {{synthetic: {{kind: linear, features: 5, train: 60, validation: 10}}}},"
    " model: {{layers: [{{linear: {{features: 3}}}}, {{linear: {{features: 1}}}}]}}, loss: {{type: mse}},"
    " optimizer: {{type: sgd, learning_rate: 30.0, momentum: 0.5}}, batch: {{global: 10}},"
    " run: {{steps: 200, log_every: {}, evaluate_every: 0}}}}";

TEST(LateFindings, ARunThatCannotGoOnEndsInTheSameState) {
  const test::RunOutcome often = logged_every(1, diverging), rarely = logged_every(1000, diverging);
  EXPECT_NE(often.failure.find("not finite"), std::string::npos) << often.failure;
  test::expect_the_same(rarely, often);
}

/// Where each rank is a group that has all of the model, each of them counts gradients that are not finite.
TEST(LateFindings, GroupsThatDivideTheModelTellOfItOnce) {
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
