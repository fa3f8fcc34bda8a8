// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/gradient_scale.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/shared_coefficients.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// What the optimizer multiplies with in each step: the learning rate's course, and the scale of gradients, clipped or
/// not.
class OptimizerSteps {
 public:
  /// `total_steps`: of the course. All outlive this.
  OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                 std::int64_t total_steps);

  /// What the step behind `applied` others is done with. `factor` times the summed gradients is the mean gradient.
  /// Collective.
  OptimizerStep at(const ExecSpace& space, ParallelStrategy& strategy, std::int64_t applied, double factor);
  double learning_rate(std::int64_t applied) const;

 private:
  OptimizerConfig config_;
  ScheduleConfig schedule_;
  std::int64_t total_steps_;
  SharedCoefficients coefficients_;
  GradientScale gradient_scale_;
};

}  // namespace lockstep
