// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "config/state_fields.hpp"
#include "optim/optimizer.hpp"
#include "parallel/parallel_strategy.hpp"
#include "train/guard/step_decision.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Counts of a run's steps.
struct StepCount {
  std::int64_t done = 0, skipped = 0;
  std::int64_t skipped_in_a_row = 0;  ///< skipped steps after the last applied one
  std::int64_t before = 0;            ///< applied steps of the run that this one has branched from
  std::int64_t missed = 0;  ///< steps that are left out, but count as applied (TrainingProblem::counts_missed)

  std::int64_t applied() const { return done - skipped; }
  /// Number of steps behind the optimizer's state, those of the run before included.
  std::int64_t optimizer_steps() const { return before + applied() - missed; }
  void describe_state(StateFields& fields);
};

/// Describes the learning rate of the last applied one of the counted steps: 0 if there is none, or in checkpoints that
/// do not say.
void describe_last_learning_rate(StateFields& fields, const StepCount& count, double& learning_rate);

/// Steps before the next one. The host may not yet know whether the last of them was skipped.
struct KnownSteps {
  StepCount count;           ///< counts the last step as done, and not skipped
  std::int64_t untaken = 0;  ///< 1: the outcome of the last step is not known yet; 0: it is

  /// Number of steps that were applied for certain.
  std::int64_t applied() const { return count.applied() - untaken; }
  /// Place of a step in its run.
  struct Place {
    std::int64_t applied;      ///< applied steps before it
    std::int64_t done;         ///< steps before it, skipped ones included
    std::int64_t before_last;  ///< steps before the last applied one; if there is none, before this one
  };
  /// Returns the place of the step after `steps` applied ones: that of the next step, or of a later one if none is
  /// skipped before it.
  Place place_of(std::int64_t steps) const;
};

/// What the optimizer multiplies with in each step, computed by rank 0 for all ranks, some hundred steps at a time:
/// replicas on different kinds of CPUs would otherwise come to differ by the last bits of their mathematical libraries.
class SharedCoefficients {
 public:
  using Compute = std::function<StepCoefficients(std::int64_t step)>;

  SharedCoefficients(const Communicator& comm, Compute compute) : comm_(comm), compute_(std::move(compute)) {}

  static constexpr std::int64_t steps_at_once = 256;

  struct Table {
    std::int64_t first;                        ///< number of steps before it
    std::span<const StepCoefficients> values;  ///< [steps_at_once]
  };
  /// Returns coefficients of consecutive steps, among them the `count` steps after `step` others. Collective: all ranks
  /// must ask for the same steps.
  Table cover(std::int64_t step, std::int64_t count);
  /// Forgets the known coefficients, which have become others.
  void forget() { known_.clear(); }

 private:
  Communicator comm_;
  Compute compute_;
  std::int64_t first_ = 0;
  std::vector<StepCoefficients> known_;  ///< from step first_ on
};

/// Provides what the optimizer multiplies with in each step: coefficients, which follow the learning-rate schedule, and
/// the scale of gradients, clipped or not.
class UpdateCoefficients {
 public:
  /// All arguments except `length` must outlive this object. Throws KeyError if the schedule does not go with the
  /// length.
  UpdateCoefficients(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                     const RunLength& length);

  /// Brings the coefficients of the next step into device memory, whether or not the last step turns out to be
  /// skipped. Most of the time they are there already. Collective.
  void provide(const ExecSpace& space, const KnownSteps& steps);
  /// Computes, on this rank, the scalars of the step after `applied` others of a run that skips none, without the scale
  /// of its gradients.
  UpdateScalars scalars(std::int64_t applied) const;
  /// Returns the factors of the step for which coefficients were provided and whose gradients are summed. Collective.
  UpdateOptions update_options(const ExecSpace& space, ParallelStrategy& strategy);
  /// Square of the gradients (ParallelStrategy::measure_gradients); also valid after the update. Collective.
  Tensor gradient_square(const ExecSpace& space, ParallelStrategy& strategy) const {
    return optimizer_.overwrites_gradients() || keeps_square_
               ? square_
               : strategy.measure_gradients(space, ParallelStrategy::Measure::square);
  }
  /// Call before others overwrite the last step's gradients. Collective.
  void keep_gradient_square(const ExecSpace& space, ParallelStrategy& strategy) {
    square_ = gradient_square(space, strategy);
    keeps_square_ = true;
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

  StepCoefficients coefficients_at(const KnownSteps::Place& place, std::int64_t own) const;
  double learning_rate_before(const KnownSteps::Place& place) const;
  /// Goes to the step after `steps`; forgets coefficients that were computed for another one.
  void go_to(const KnownSteps& steps);
  /// Forgets the known coefficients, which have become others.
  void forget();

  const Optimizer& optimizer_;
  double learning_rate_;
  Beginning beginning_;
  KnownSteps known_;  ///< coefficients are computed after these; those of the next step are still the same
  LearningRateSchedule schedule_;
  SharedCoefficients coefficients_;
  double clip_norm_;
  Tensor square_;  ///< sum of squares of gradients that the step clips or overwrites, or that are kept
  bool keeps_square_ = false;
  CoefficientTable table_;  ///< coefficients that rank 0 has sent
  Buffer memory_;           ///< table_ in device memory
};

}  // namespace lockstep
