// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/optimizer_steps.hpp"

#include <algorithm>

namespace lockstep {

OptimizerSteps::OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                               const RunLength& length)
    : optimizer_(optimizer),
      learning_rate_(config.optimizer.learning_rate()),
      schedule_(config.schedule, length),
      coefficients_(comm, [this](std::int64_t step) { return coefficients_at(step, step); }),
      clip_norm_(config.optimizer.clip_norm()),
      table_{.first = -1},
      memory_("lockstep::step_coefficients", sizeof(CoefficientTable)) {}

StepCoefficients OptimizerSteps::coefficients_at(std::int64_t applied, std::int64_t taken) const {
  return optimizer_.coefficients({.learning_rate = learning_rate(applied),
                                  .learning_rate_before = learning_rate(std::max<std::int64_t>(1, applied) - 1),
                                  .number = before_ + taken + 1});
}

StepScalars OptimizerSteps::scalars(std::int64_t applied, std::int64_t taken) const {
  return {.coefficients = coefficients_at(applied, taken), .first = taken == 0 && before_ == 0 ? 1 : 0};
}

void OptimizerSteps::provide(const ExecSpace& space, std::int64_t applied) {
  static_assert(CoefficientTable::size == SharedCoefficients::steps_at_once);
  const SharedCoefficients::Stretch known = coefficients_.cover(applied, 2);
  if (table_.first == known.first && table_.before == before_) return;
  table_.first = known.first;
  table_.before = before_;
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
