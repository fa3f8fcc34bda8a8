// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/progress.hpp"
#include "resilience/watchdog.hpp"
#include "run/folder/run_folder.hpp"
#include "run/training/checkpoint_schedule.hpp"
#include "run/training/opened_deck.hpp"
#include "run/training/run_batches.hpp"
#include "run/training/run_checkpoints.hpp"
#include "run/training/run_evaluations.hpp"
#include "run/training/run_owner.hpp"
#include "run/training/run_state.hpp"
#include "run/training/saved_state.hpp"
#include "run/training/state_audit.hpp"
#include "run/training/steps_done.hpp"
#include "run/training/stop_vote.hpp"

namespace lockstep {

/// What attempts at the same run by the same processes leave, which have ended as ranks were lost (parallel.survive).
struct EarlierAttempts {
  std::vector<int> lost_ranks;  ///< by their numbers at the start of the processes
  bool has_begun = false;       ///< one has made the output folder its own, which this one may do as well
};

/// One run: from a deck to a trained network in run.output_dir. Feeds a Trainer, and does what goes on around steps:
/// evaluations, checkpoints, curves, stops. Every rank has one.
class TrainingRun {
 public:
  /// Opens everything, restores a checkpoint where there is one to go on from, and makes the output
  /// folder. Collective; whatever is wrong on any rank is thrown on all of them. `owner`: outlives the run; null: the
  /// run is the program's only one. `earlier`: whose checkpoints it goes on from; outlives the run; null: there is
  /// none.
  TrainingRun(const RunConfig& config, const Communicator& comm, RunOwner* owner = nullptr,
              EarlierAttempts* earlier = nullptr);

  /// Trains until the deck or the owner says that it has ended (`done`), or a signal, the job's end, a file or the
  /// owner that it is to stop (`stopped_early`), and leaves a summary. Throws DivergedError.
  ExitStatus run();
  /// Why it has stopped early, and on which rank; of rank 0.
  const std::string& stopped_by() const { return stop_vote_.reason(); }

  /// One step of all ranks, on the next batch; `run` is a loop over it.
  const StepResult& step();

  /// Steps of the whole run.
  std::int64_t total_steps() const { return deck_.total_steps(); }
  RunBatches& batches() { return batches_; }
  Trainer& trainer() { return *deck_.trainer; }

 private:
  // training_run_set_up.cpp
  bool open_folder();

  // training_run.cpp
  bool train_to_the_end();
  bool finished() const { return trainer_.steps() >= total_steps() || evaluations_.end_run(); }
  void step_once();
  void take(StepResult result);
  bool after_steps(std::int64_t steps, double seconds);
  bool goes_on_from(const StepFinding& finding);
  void log_step();
  bool ends_between_rows() const {
    return trainer_.steps() == total_steps() && state_.curves.has_unlogged(trainer_.steps());
  }
  StepsDone steps_done() const {
    return {trainer_.steps(), steps_at_once_, batches_.position_before(), state_.data.position,
            trainer_.has_common_parameters()};
  }
  /// The row of a step comes before that of its evaluation. Where the last step has a row only because it is the last,
  /// `run` writes it, after the last checkpoint, and sees to the evaluation as well.
  bool evaluation_due() const { return !ends_between_rows() && evaluations_.is_due(steps_done()); }
  RunEvaluations::Interruption interruption();
  std::optional<StepFinding> validate();
  void checkpoint_if_due();
  void roll_back(StepFinding finding);

  // training_run_end.cpp
  StepFinding inspect_parameters();
  [[noreturn]] void give_up(const StepFinding& finding);
  ExitStatus stop();
  void write_summary(const std::string& status, const std::string& failure = "");

  Communicator comm_;
  EarlierAttempts* earlier_;
  Watchdog watchdog_;
  RunFolder folder_;
  Progress progress_;
  StopVote stop_vote_;
  OpenedDeck deck_;
  Trainer& trainer_;  ///< the deck's
  RunState state_;
  RunBatches batches_;
  RunEvaluations evaluations_;
  SavedState saved_state_;
  StateAudit audit_;
  CheckpointSchedule checkpoint_schedule_;
  RunCheckpoints checkpoints_;

  StepResult last_step_;
  bool is_complete_ = false;        ///< nothing is left to do, as an earlier process has found
  std::int64_t steps_at_once_ = 1;  ///< the run's, that were done by the last call of `step`
  double start_seconds_ = 0;        ///< from the start of the process to the first step
};

}  // namespace lockstep
