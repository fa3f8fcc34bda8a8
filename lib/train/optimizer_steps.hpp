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
  /// All but `length` outlive this. Throws KeyError where the schedule does not go with the length.
  OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                 const RunLength& length);

  /// What the step behind `applied` others is done with. `factor` times the summed gradients is the mean gradient.
  /// Collective.
  OptimizerStep at(const ExecSpace& space, ParallelStrategy& strategy, std::int64_t applied, double factor);
  double learning_rate(std::int64_t applied) const { return learning_rate_ * schedule_.factor(applied); }
  /// The optimizer's state comes of so many steps of another run, which its formulae count and the learning rate's
  /// course does not.
  void begin_behind(std::int64_t steps) { before_ = steps; }

 private:
  double learning_rate_;
  std::int64_t before_ = 0;
  LearningRateSchedule schedule_;
  SharedCoefficients coefficients_;
  GradientScale gradient_scale_;
};

}  // namespace lockstep
