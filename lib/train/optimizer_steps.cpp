// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/optimizer_steps.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

OptimizerSteps::OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                               const RunLength& length)
    : optimizer_(optimizer),
      learning_rate_(config.optimizer.learning_rate()),
      schedule_(config.schedule, length),
      coefficients_(comm, [this](std::int64_t step) { return coefficients_at(step, before_ + step); }),
      clip_norm_(config.optimizer.clip_norm()),
      table_{.first = -1},
      memory_("lockstep::step_coefficients", sizeof(CoefficientTable)) {}

StepCoefficients OptimizerSteps::coefficients_at(std::int64_t applied, std::int64_t own) const {
  return optimizer_.coefficients({.learning_rate = learning_rate(applied),
                                  .learning_rate_before = learning_rate(std::max<std::int64_t>(1, applied) - 1),
                                  .number = own + 1});
}

StepScalars OptimizerSteps::scalars(std::int64_t applied, std::optional<std::int64_t> own) const {
  const std::int64_t done = own.value_or(before_ + applied);
  return {.coefficients = coefficients_at(applied, done), .first = done == 0 ? 1 : 0};
}

void OptimizerSteps::provide(const ExecSpace& space, std::int64_t applied) {
  put(space, coefficients_.cover(applied, 2), 0);
}

void OptimizerSteps::provide(const ExecSpace& space, std::int64_t applied, OwnSteps& own) {
  const std::int64_t missed = before_ + applied - own.done();
  if (!own_coefficients_)
    own_coefficients_.emplace(own.ranks(),
                              [this](std::int64_t step) { return coefficients_at(step, before_ + step - missed_); });
  if (std::exchange(missed_, missed) != missed) own_coefficients_->forget();
  put(space, own_coefficients_->cover(applied, 1), missed);
}

void OptimizerSteps::put(const ExecSpace& space, const SharedCoefficients::Stretch& known, std::int64_t missed) {
  static_assert(CoefficientTable::size == SharedCoefficients::steps_at_once);
  if (table_.first == known.first && table_.before == before_ && missed_in_table_ == missed) return;
  table_.first = known.first;
  table_.before = before_;
  missed_in_table_ = missed;
  std::ranges::copy(known.values, table_.of_step);
  copy_from_host(space, &table_, memory_.tensor(0, DType::u8, {sizeof(CoefficientTable)}));
}

UpdateOptions OptimizerSteps::update_options(const ExecSpace& space, ParallelStrategy& strategy) {
  if (clip_norm_ > 0 || optimizer_.overwrites_gradients()) square_ = strategy.gradient_square(space);
  return {.coefficients = reinterpret_cast<const CoefficientTable*>(memory_.data()),
          .square = clip_norm_ > 0 ? square_.as<const double>() : nullptr,
          .clip_norm = clip_norm_};
}

}  // namespace lockstep
