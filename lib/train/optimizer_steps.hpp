// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "parallel/parallel_strategy.hpp"
#include "parallel/shared_coefficients.hpp"
#include "train/step_judgement.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// What the optimizer multiplies with in each step: the learning rate's course, and the scale of gradients, clipped or
/// not.
class OptimizerSteps {
 public:
  /// All but `length` outlive this. Throws KeyError where the schedule does not go with the length.
  OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                 const RunLength& length);

  /// Has what the next step multiplies with in the step's memory: behind `applied` others or, if the host has not heard
  /// of the last one yet, one more. Mostly it is there. Collective.
  void provide(const ExecSpace& space, std::int64_t applied);
  /// What this rank finds that a step behind `applied` others of the run is done with, but for the scale of its
  /// gradients. `taken`: of those, the ones that its optimizer has done.
  StepScalars scalars(std::int64_t applied, std::int64_t taken) const;
  /// What the step is done with that it was provided for, whose gradients are summed. Collective.
  UpdateOptions update_options(const ExecSpace& space, ParallelStrategy& strategy);
  /// As ParallelStrategy's, behind the update too. Collective.
  Tensor gradient_square(const ExecSpace& space, ParallelStrategy& strategy) const {
    return optimizer_.overwrites_gradients() ? square_ : strategy.gradient_square(space);
  }
  double learning_rate(std::int64_t applied) const { return learning_rate_ * schedule_.factor(applied); }
  /// The optimizer's state comes of so many steps of another run, which its formulae count and the learning rate's
  /// course does not.
  void begin_behind(std::int64_t steps) {
    if (before_ != steps) coefficients_.forget();
    before_ = steps;
  }

 private:
  StepCoefficients coefficients_at(std::int64_t applied, std::int64_t taken) const;

  const Optimizer& optimizer_;
  double learning_rate_;
  std::int64_t before_ = 0;
  LearningRateSchedule schedule_;
  SharedCoefficients coefficients_;
  double clip_norm_;
  Tensor square_;           ///< of gradients that the step clips, or writes over
  CoefficientTable table_;  ///< what rank 0 has sent
  Buffer memory_;           ///< the same in the step's memory
};

}  // namespace lockstep
