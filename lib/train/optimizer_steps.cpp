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
      gradient_scale_(config.optimizer.clip_norm()) {}

OptimizerStep OptimizerSteps::at(const ExecSpace& space, ParallelStrategy& strategy, std::int64_t applied,
                                 double factor) {
  const Tensor square = gradient_scale_.clips() ? strategy.gradient_square(space) : Tensor{};
  return {.coefficients = coefficients_.at(applied), .gradient_scale = gradient_scale_.compute(space, square, factor)};
}

}  // namespace lockstep
