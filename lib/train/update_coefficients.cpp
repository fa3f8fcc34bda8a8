// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/update_coefficients.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

void StepCount::describe_state(StateFields& fields) {
  fields.integer("step", done);
  fields.integer("skipped_steps", skipped);
  const auto unless_zero = [&](std::string_view key, std::int64_t& value) {
    if (fields.has(key, value > 0)) fields.integer(key, value);
    else value = 0;
  };
  unless_zero("skipped_in_a_row", skipped_in_a_row);
  unless_zero("steps_before_branch", before);
  unless_zero("missed_steps", missed);
}

void describe_last_learning_rate(StateFields& fields, const StepCount& count, double& learning_rate) {
  constexpr const char* key = "learning_rate";
  if (fields.has(key, count.optimizer_steps() > 0)) fields.real(key, learning_rate);
  else learning_rate = 0;
}

KnownSteps::Place KnownSteps::place_of(std::int64_t steps) const {
  const std::int64_t done = std::max(steps + count.skipped, count.done);
  if (steps == 0) return {steps, done, done};
  // If the last step turns out to be skipped, one step fewer is applied than the host counts; the next step has the
  // same batch in either case.
  const bool is_known = steps == applied();
  return {steps, done, is_known ? count.done - untaken - count.skipped_in_a_row - 1 : done - 1};
}

SharedCoefficients::Table SharedCoefficients::cover(std::int64_t step, std::int64_t count) {
  if (step < first_ || step + count > first_ + static_cast<std::int64_t>(known_.size())) {
    first_ = step;
    known_.resize(static_cast<std::size_t>(steps_at_once));
    if (comm_.is_root())
      for (std::int64_t i = 0; i < steps_at_once; ++i) known_[static_cast<std::size_t>(i)] = compute_(first_ + i);
    comm_.broadcast({known_.front().data(), known_.size() * known_.front().size()});
  }
  return {first_, known_};
}

UpdateCoefficients::UpdateCoefficients(const TrainingConfig& config, const Communicator& comm,
                                       const Optimizer& optimizer, const RunLength& length)
    : optimizer_(optimizer),
      learning_rate_(config.optimizer.rule().learning_rate),
      schedule_(config.schedule, length),
      coefficients_(comm,
                    [this](std::int64_t applied) {
                      return coefficients_at(known_.place_of(applied),
                                             beginning_.other_steps + applied - known_.count.missed);
                    }),
      clip_norm_(config.optimizer.rule().clip_norm),
      table_{.first = -1},
      memory_("lockstep::step_coefficients", sizeof(CoefficientTable)) {}

StepCoefficients UpdateCoefficients::coefficients_at(const KnownSteps::Place& place, std::int64_t own) const {
  return optimizer_.coefficients({.learning_rate = learning_rate(place.applied, place.done),
                                  .learning_rate_before = learning_rate_before(place),
                                  .number = own + 1});
}

/// Velocities are made with the learning rate of the last applied step. The deck may have changed since that step.
double UpdateCoefficients::learning_rate_before(const KnownSteps::Place& place) const {
  if (place.applied == beginning_.applied && beginning_.learning_rate > 0) return beginning_.learning_rate;
  return learning_rate(std::max<std::int64_t>(1, place.applied) - 1, place.before_last);
}

void UpdateCoefficients::begin_after(const StepCount& count, double learning_rate) {
  const Beginning beginning{count.before, count.applied(), learning_rate};
  if (std::exchange(beginning_, beginning) != beginning) forget();
}

UpdateScalars UpdateCoefficients::scalars(std::int64_t applied) const {
  const std::int64_t done = beginning_.other_steps + applied;
  return {.coefficients = coefficients_at(KnownSteps{{.done = applied}}.place_of(applied), done),
          .first = done == 0 ? 1 : 0};
}

void UpdateCoefficients::forget() {
  coefficients_.forget();
  table_.first = -1;
}

void UpdateCoefficients::go_to(const KnownSteps& steps) {
  const auto is_the_same = [&](std::int64_t applied) {
    const KnownSteps::Place before = known_.place_of(applied), now = steps.place_of(applied);
    return schedule_.batch_factor(before.done) == schedule_.batch_factor(now.done) &&
           schedule_.batch_factor(before.before_last) == schedule_.batch_factor(now.before_last);
  };
  const std::int64_t applied = steps.applied();
  if (known_.count.missed == steps.count.missed && is_the_same(applied) &&
      (steps.untaken == 0 || is_the_same(applied + 1)))
    return;
  known_ = steps;
  forget();
}

void UpdateCoefficients::provide(const ExecSpace& space, const KnownSteps& steps) {
  keeps_square_ = false;
  go_to(steps);
  static_assert(CoefficientTable::size == SharedCoefficients::steps_at_once);
  const SharedCoefficients::Table known = coefficients_.cover(steps.applied(), 2);
  if (table_.first == known.first && table_.before == beginning_.other_steps) return;
  table_.first = known.first;
  table_.before = beginning_.other_steps;
  std::ranges::copy(known.values, table_.of_step);
  copy_from_host(space, &table_, memory_.tensor(0, DType::u8, {sizeof(CoefficientTable)}));
}

UpdateOptions UpdateCoefficients::update_options(const ExecSpace& space, ParallelStrategy& strategy) {
  if (clip_norm_ > 0 || optimizer_.overwrites_gradients())
    square_ = strategy.measure_gradients(space, ParallelStrategy::Measure::square);
  return {.coefficients = reinterpret_cast<const CoefficientTable*>(memory_.data()),
          .square = clip_norm_ > 0 ? square_.as<const double>() : nullptr,
          .clip_norm = clip_norm_};
}

}  // namespace lockstep
