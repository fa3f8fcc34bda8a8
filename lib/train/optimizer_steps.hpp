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

/// Provides what the optimizer multiplies with in each step: coefficients, which follow the learning-rate schedule, and
/// the scale of gradients, clipped or not.
class OptimizerSteps {
 public:
  /// All arguments except `length` must outlive this object. Throws KeyError if the schedule does not go with the
  /// length.
  OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                 const RunLength& length);

  /// Brings the coefficients of the next step into device memory, whether or not the last step turns out to be
  /// skipped. Most of the time they are there already. Collective.
  void provide(const ExecSpace& space, const KnownSteps& steps);
  /// Brings the coefficients of the step after exactly `count` steps, of which the optimizer has done `own`, into the
  /// step's memory. Collective over the ranks that count those.
  void provide(const ExecSpace& space, const StepCount& count, OwnSteps& own);
  /// Computes, on this rank, the scalars of the step after `applied` others of a run that skips none, without the scale
  /// of its gradients. `own` is the number of steps behind the optimizer's states; none: all those of the run.
  UpdateScalars scalars(std::int64_t applied, std::optional<std::int64_t> own) const;
  /// Returns the factors of the step for which coefficients were provided and whose gradients are summed. Collective.
  UpdateOptions update_options(const ExecSpace& space, ParallelStrategy& strategy);
  /// See ParallelStrategy::gradient_square; also valid after the update. Collective.
  Tensor gradient_square(const ExecSpace& space, ParallelStrategy& strategy) const {
    return optimizer_.overwrites_gradients() ? square_ : strategy.gradient_square(space);
  }
  /// Learning rate of a step after `done` others, of which `applied` were not skipped.
  double learning_rate(std::int64_t applied, std::int64_t done) const {
    return learning_rate_ * schedule_.factor(applied, done);
  }
  /// Learning rate of the step that the optimizer's state ends with, after `count` steps.
  double learning_rate_before(const StepCount& count) const {
    return learning_rate_before(KnownSteps{.count = count}.place_of(count.applied()));
  }
  /// Says that the run goes on after `count`. The learning rate of the last applied step was `learning_rate`, whatever
  /// this run's deck has for it; 0: what the deck has.
  void begin_after(const StepCount& count, double learning_rate);

 private:
  /// The steps behind the optimizer's state where the run has begun or gone on.
  struct Beginning {
    std::int64_t other_steps = 0;  ///< of the run that this one has branched from: counted by the optimizer's formulas,
                                   ///< and not by the schedule
    std::int64_t applied = 0;      ///< steps of this run
    double learning_rate = 0;      ///< of the last step; 0: not known
    friend bool operator==(const Beginning&, const Beginning&) = default;
  };

  StepCoefficients coefficients_at(const StepPlace& place, std::int64_t own) const;
  double learning_rate_before(const StepPlace& place) const;
  /// Goes to the step after `steps`; forgets coefficients that were computed for another one.
  void go_to(const KnownSteps& steps);
  /// Forgets the known coefficients, which have become others.
  void forget();
  void put(const ExecSpace& space, const SharedCoefficients::Table& known, std::int64_t missed);

  const Optimizer& optimizer_;
  double learning_rate_;
  Beginning beginning_;
  KnownSteps known_;  ///< coefficients are computed after these; those of the next step are still the same
  LearningRateSchedule schedule_;
  SharedCoefficients coefficients_;
  std::optional<SharedCoefficients> own_coefficients_;  ///< if ranks count their own steps
  std::int64_t missed_ = 0;                             ///< steps of the run that are not among the ranks' own
  double clip_norm_;
  Tensor square_;           ///< sum of squares of gradients that the step clips or overwrites
  CoefficientTable table_;  ///< coefficients that rank 0, or the first rank of a group, has sent
  std::int64_t missed_in_table_ = 0;
  Buffer memory_;  ///< table_ in device memory
};

}  // namespace lockstep
