// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "run/monitor/progress.hpp"
#include "run/monitor/selection.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_owner.hpp"
#include "run/training/run_schedule.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {

struct EvaluationResults;

/// The evaluations of a run: when they are due, and what follows from their metrics, such as the end of the run. Its
/// state is the same on all ranks.
class RunEvaluations {
 public:
  /// All arguments outlive this. `owner`: null if the run has none.
  RunEvaluations(const PreparedRun& prepared, EvaluationState& state, const DataPosition& position, Progress& progress,
                 RunOwner* owner);

  /// Whether an evaluation on validation data is due, by the deck's interval. None is while ranks have no common
  /// parameters; `postpone` remembers it.
  bool is_due(const CompletedSteps& steps) const;
  /// Keeps an evaluation that has become due with these steps due until it is done.
  void postpone(const CompletedSteps& steps) { state_.owes_evaluation |= has_come(steps); }

  /// How an evaluation may be ended before it is complete.
  struct Interruption {
    std::function<bool()> is_wanted;  ///< whether this rank wants that; one is enough
    double longest_step = 0;          ///< seconds, which set how often ranks are asked; 0: this process has done no
                                      ///< step
  };
  /// Evaluates on validation data, and returns what the loss says of the run; `skipped` is no reason to stop. Returns
  /// none, and changes nothing, if it was interrupted. Collective.
  std::optional<StepOutcome> validate(const Interruption& interruption);
  /// Evaluates on test data. Returns false if it was interrupted. Collective.
  bool test(const Interruption& interruption);

  /// Whether this process has validated the parameters after this step.
  bool have_validated(std::int64_t step) const { return validation_ && state_.evaluated_step == step; }
  /// Returns true once after each validation that is among the best, whose checkpoint is to be written.
  bool take_best() { return std::exchange(among_the_best_, false); }
  /// Whether the evaluations end the run: by the deck's target or patience, or by its owner.
  bool end_run() const { return selection_.ends_run() || ended_by_owner_; }
  bool ended_by_owner() const { return ended_by_owner_; }

  Selection& selection() { return selection_; }
  const Selection& selection() const { return selection_; }
  /// The metrics are those of the last evaluations of this process.
  EvaluationResults results() const;

 private:
  bool has_come(const CompletedSteps& steps) const;
  std::optional<Metrics> evaluate(const Dataset& data, const Interruption& interruption);

  Communicator comm_;
  const Datasets& data_;
  Trainer& trainer_;
  EvaluationState& state_;
  const DataPosition& position_;
  Progress& progress_;
  RunOwner* owner_;
  RunOptions::Interval interval_;
  Selection selection_;
  std::optional<Metrics> validation_, test_;
  bool among_the_best_ = false, ended_by_owner_ = false;
};

}  // namespace lockstep
