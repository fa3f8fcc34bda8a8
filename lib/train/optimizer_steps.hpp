// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <utility>

#include "parallel/own_steps.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/shared_coefficients.hpp"
#include "train/guard/step_decision.hpp"
#include "train/step_count.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// What the optimizer multiplies with in each step: the learning rate's course, and the scale of gradients, clipped or
/// not.
class OptimizerSteps {
 public:
  /// All but `length` outlive this. Throws KeyError where the schedule does not go with the length.
  OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                 const RunLength& length);

  /// Has what the next step multiplies with in the step's memory, whatever has become of the last one before it. Mostly
  /// it is there. Collective.
  void provide(const ExecSpace& space, const KnownSteps& steps);
  /// Likewise, after exactly so many, where the optimizer has done `own`. Collective over the ranks that count them.
  void provide(const ExecSpace& space, const StepCount& count, OwnSteps& own);
  /// What this rank finds that a step after `applied` others of a run that skips none is done with, but for the scale
  /// of its gradients. `own`: steps that the optimizer's states come of; none: those of the run.
  StepScalars scalars(std::int64_t applied, std::optional<std::int64_t> own) const;
  /// What the step is done with that it was provided for, whose gradients are summed. Collective.
  UpdateOptions update_options(const ExecSpace& space, ParallelStrategy& strategy);
  /// As ParallelStrategy's, after the update too. Collective.
  Tensor gradient_square(const ExecSpace& space, ParallelStrategy& strategy) const {
    return optimizer_.overwrites_gradients() ? square_ : strategy.gradient_square(space);
  }
  /// The learning rate of a step after `done` others, of which `applied` were not skipped.
  double learning_rate(std::int64_t applied, std::int64_t done) const {
    return learning_rate_ * schedule_.factor(applied, done);
  }
  /// The optimizer's state comes of so many steps of another run, which its formulae count and the learning rate's
  /// course does not.
  void begin_after(std::int64_t steps) {
    if (std::exchange(before_, steps) != steps) forget();
  }

 private:
  StepCoefficients coefficients_at(const StepPlace& place, std::int64_t own) const;
  /// The next step comes after these.
  void go_to(const KnownSteps& steps);
  /// What is known has become something else.
  void forget();
  void put(const ExecSpace& space, const SharedCoefficients::Stretch& known, std::int64_t missed);

  const Optimizer& optimizer_;
  double learning_rate_;
  std::int64_t before_ = 0;
  KnownSteps known_;  ///< that coefficients are computed after; those of the next step are the same after it
  LearningRateSchedule schedule_;
  SharedCoefficients coefficients_;
  std::optional<SharedCoefficients> own_coefficients_;  ///< where ranks count their own steps
  std::int64_t missed_ = 0;                             ///< of the run's steps, by these
  double clip_norm_;
  Tensor square_;           ///< of gradients that the step clips, or writes over
  CoefficientTable table_;  ///< what rank 0, or the first of a group, has sent
  std::int64_t missed_in_table_ = 0;
  Buffer memory_;  ///< the same in the step's memory
};

}  // namespace lockstep
