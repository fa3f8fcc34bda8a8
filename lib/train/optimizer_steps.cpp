// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/optimizer_steps.hpp"

#include <algorithm>

namespace lockstep {

OptimizerSteps::OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                               const RunLength& length)
    : learning_rate_(config.optimizer.learning_rate()),
      schedule_(config.schedule, length),
      coefficients_(
          comm,
          [this, &optimizer](std::int64_t step) {
            return optimizer.coefficients({.learning_rate = learning_rate(step),
                                           .learning_rate_before = learning_rate(std::max<std::int64_t>(1, step) - 1),
                                           .number = before_ + step + 1});
          }),
      clip_norm_(config.optimizer.clip_norm()),
      table_("lockstep::step_coefficients", DType::f64,
             {SharedCoefficients::steps_at_once, static_cast<std::int64_t>(StepCoefficients::size())}) {}

UpdateOptions OptimizerSteps::at(const ExecSpace& space, ParallelStrategy& strategy, std::int64_t applied) {
  const SharedCoefficients::Stretch known = coefficients_.cover(applied, 2);
  if (std::exchange(first_in_table_, known.first) != known.first)
    copy_from_host(space, known.values.data(), table_.get());
  return {.coefficients = reinterpret_cast<const StepCoefficients*>(table_.get().data),
          .first = known.first,
          .before = before_,
          .square = clip_norm_ > 0 ? strategy.gradient_square(space).as<const double>() : nullptr,
          .clip_norm = clip_norm_};
}

}  // namespace lockstep
