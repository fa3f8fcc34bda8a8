// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "monitor/progress.hpp"
#include "monitor/selection.hpp"
#include "run/training/opened_deck.hpp"
#include "run/training/run_owner.hpp"
#include "run/training/run_state.hpp"
#include "run/training/steps_done.hpp"

namespace lockstep {

struct EvaluationResults;

/// The evaluations of a run: when they are due, and what follows from their metrics, such as the end of the run. The
/// same on all ranks.
class RunEvaluations {
 public:
  /// All outlive this. `owner`: null where the run has none.
  RunEvaluations(const OpenedDeck& deck, EvaluationState& state, const DataPosition& position, Progress& progress,
                 RunOwner* owner);

  /// Whether one on validation data is, by the deck's interval. Where ranks have no common parameters, it waits for
  /// these (`postpone`).
  bool is_due(const StepsDone& steps) const;
  /// What has become due with these steps stays so until it is done.
  void postpone(const StepsDone& steps) { state_.owes_evaluation |= has_come(steps); }

  /// How an evaluation may end before it is complete.
  struct Interruption {
    std::function<bool()> is_wanted;  ///< by this rank; one is enough
    double longest_step = 0;          ///< seconds, for how often to ask; 0: this process has done none
  };
  /// On validation data. What its loss says of the run: `skipped` is no reason not to go on. None, and nothing is
  /// changed, where it was interrupted. Collective.
  std::optional<StepFinding> validate(const Interruption& interruption);
  /// On test data; false where it was interrupted. Collective.
  bool test(const Interruption& interruption);

  /// Whether this process has validated the parameters that this step has left.
  bool have_validated(std::int64_t step) const { return validation_ && state_.evaluated_step == step; }
  /// Whether the checkpoint of the last validation is among the best ones and was not asked for yet.
  bool take_best() { return std::exchange(among_the_best_, false); }
  /// Whether they end the run: by the deck's target or patience, or by its owner.
  bool end_run() const { return selection_.ends_run() || ended_by_owner_; }
  bool ended_by_owner() const { return ended_by_owner_; }

  Selection& selection() { return selection_; }
  const Selection& selection() const { return selection_; }
  /// The metrics are those of this process's last ones.
  EvaluationResults results() const;

 private:
  bool has_come(const StepsDone& steps) const;
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
