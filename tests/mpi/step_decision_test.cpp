// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/step_decision.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "core/host_memory.hpp"

namespace lockstep {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Decides on steps as devices do, by numbers in device memory.
class StepDecider {
 public:
  StepDecider() {
    CoefficientTable table;
    for (std::int64_t i = 0; i < steps; ++i) table.of_step[i] = {4.0 * static_cast<double>(i)};
    copy_from_host(space, &table, coefficients.tensor(0, DType::u8, {sizeof(CoefficientTable)}));
    begin_with({});
  }

  void begin_with(const StepDecision& decision) {
    copy_from_host(space, &decision, memory.tensor(0, DType::u8, {sizeof(StepDecision)}));
  }

  struct Found {
    double loss = 1;
    double rows = 8;       ///< rows whose targets count
    double smoothing = 0;  ///< what label smoothing adds to the sum of losses
    double overflows = 0;  ///< in scaled gradients
    double lost = 0;       ///< in gradients whose loss is not finite
    std::int32_t bad_parameters = 0;
  };
  StepDecision decide(const Found& found) {
    const LossSums own{
        .loss = found.rows * found.loss + found.smoothing, .correct = 0, .weight = found.rows, .counted = found.rows};
    copy_from_host(space, &own, sums.get());
    copy_from_host(space, &found.overflows, overflows.get());
    copy_from_host(space, &found.lost, lost.get());
    copy_from_host(space, &found.bad_parameters, nonfinite.get());
    begin_decision(space, scales, 8, 0, decision());
    decide_step(space,
                {.loss = {.in_memory = static_cast<const LossSums*>(sums.get().data), .examples = 8},
                 .nonfinite_parameters = nonfinite.get().as<const std::int32_t>(),
                 .nonfinite_gradients = scales ? overflows.get().as<const double>() : nullptr,
                 .scaling = scaling,
                 .lost_gradients = lost.get().as<const double>(),
                 .tensors = 1},
                {.coefficients = reinterpret_cast<const CoefficientTable*>(coefficients.data())}, decision());
    HostCopy<StepDecision> copy;
    copy.start(space, decision());
    return copy.take();
  }

  bool scales = false;
  LossScaleRule scaling;

 private:
  static constexpr std::int64_t steps = 100;
  StepDecision* decision() const { return reinterpret_cast<StepDecision*>(memory.data()); }

  ExecSpace space;
  OwnedTensor sums{"sums", DType::f64, {loss_sum_count}}, overflows{"overflows", DType::f64, {1}},
      lost{"lost", DType::f64, {1}}, nonfinite{"nonfinite", DType::i32, {1}};
  Buffer coefficients{"coefficients", sizeof(CoefficientTable)}, memory{"decision", sizeof(StepDecision)};
};

/// The scale and the count of applied steps, hence the coefficients, are those that the host would find.
TEST(StepDecision, ScalesTheLossAsTheHostWould) {
  StepDecider decider;
  decider.scales = true;
  decider.scaling = {.floor = 4, .interval = 5, .hysteresis = 2};
  LossScaleRule::State expected{.scale = 64, .hysteresis_left = 2};
  decider.begin_with({.scaler = expected});
  const std::set<int> planted{0, 1, 2, 9, 15, 16, 23, 40, 41, 42};
  std::int64_t applied = 0;
  for (int step = 0;; ++step) {
    ASSERT_LT(step, 90) << "never at the floor";
    const bool overflow = planted.contains(step) || step >= 60;
    if (overflow && decider.scaling.at_floor(expected)) break;
    const float scale = expected.scale;
    const StepDecision found = decider.decide({.overflows = overflow ? 3.0 : 0.0});
    ASSERT_EQ(found.outcome, overflow ? StepDecision::Outcome::overflow : StepDecision::Outcome::applied)
        << "step " << step;
    EXPECT_EQ(found.loss_factor, static_cast<double>(scale) / 8);
    EXPECT_EQ(found.scalars.left_out, overflow ? 1 : 0);
    if (!overflow) {
      EXPECT_EQ(found.scalars.coefficients[0], 4.0 * static_cast<double>(applied));
      EXPECT_EQ(found.scalars.first, applied == 0 ? 1 : 0);
      EXPECT_EQ(found.scalars.gradient_scale, 1 / (8 * found.loss_factor));
      ++applied;
    }
    expected = overflow ? decider.scaling.after_overflow(expected) : decider.scaling.after_good_step(expected);
    EXPECT_EQ(found.scaler, expected) << "step " << step;
    EXPECT_EQ(found.applied, applied);
  }
  const StepDecision last = decider.decide({.overflows = 1});
  EXPECT_EQ(last.outcome, StepDecision::Outcome::at_floor);
  EXPECT_EQ(last.scaler, expected);
  EXPECT_EQ(last.halted, 1);
}

TEST(StepDecision, NothingChangesBehindAStepThatCannotBeDone) {
  for (const StepDecider::Found& bad :
       {StepDecider::Found{.loss = infinite, .lost = 2}, StepDecider::Found{.bad_parameters = 1}}) {
    StepDecider decider;
    EXPECT_EQ(decider.decide({}).outcome, StepDecision::Outcome::applied);
    const StepDecision before = decider.decide(bad);
    EXPECT_EQ(before.outcome,
              bad.bad_parameters != 0 ? StepDecision::Outcome::bad_parameters : StepDecision::Outcome::lost);
    EXPECT_EQ(before.scalars.left_out, 1);
    EXPECT_EQ(before.scalars.nonfinite_before, bad.bad_parameters);
    const StepDecision after = decider.decide({});
    EXPECT_EQ(after.outcome, StepDecision::Outcome::halted);
    EXPECT_EQ(after.scalars.left_out, 1);
    EXPECT_EQ(after.applied, 1);
    EXPECT_EQ(after.loss_was_nonfinite, before.loss_was_nonfinite);
  }
}

/// A step in which no target counts has no loss, and is applied with gradients of 0.
TEST(StepDecision, AStepWithoutALossIsApplied) {
  StepDecider decider;
  EXPECT_EQ(decider.decide({.loss = infinite}).outcome, StepDecision::Outcome::suspicious);
  const StepDecision found = decider.decide({.rows = 0});
  EXPECT_EQ(found.outcome, StepDecision::Outcome::applied);
  EXPECT_EQ(found.has_loss, 0);
  EXPECT_EQ(found.scalars.gradient_scale, 1.0 / 8);
  EXPECT_EQ(found.loss_was_nonfinite, 1) << "of the step before";
  const StepDecision smoothed = decider.decide({.rows = 0, .smoothing = 3});
  EXPECT_EQ(smoothed.outcome, StepDecision::Outcome::applied);
  EXPECT_EQ(smoothed.mean_loss, 0);
  EXPECT_EQ(smoothed.scalars.gradient_scale, 0) << "a mean over no weight";
  EXPECT_EQ(decider.decide({.loss = infinite}).outcome, StepDecision::Outcome::lost);
}

TEST(StepDecision, OneLossMayBeOutOfBounds) {
  StepDecider decider;
  EXPECT_EQ(decider.decide({.loss = infinite}).outcome, StepDecision::Outcome::suspicious);
  EXPECT_EQ(decider.decide({}).outcome, StepDecision::Outcome::applied);
  EXPECT_EQ(decider.decide({.loss = infinite}).outcome, StepDecision::Outcome::suspicious);
  const StepDecision second = decider.decide({.loss = infinite});
  EXPECT_EQ(second.outcome, StepDecision::Outcome::lost);
  EXPECT_EQ(second.lost_before, 1);
  EXPECT_EQ(second.applied, 3);
}

}  // namespace
}  // namespace lockstep
