// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/folder/run_folder.hpp"
#include "run/monitor/progress.hpp"
#include "run/resilience/watchdog.hpp"
#include "run/training/batch_feed.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_checkpoints.hpp"
#include "run/training/run_evaluations.hpp"
#include "run/training/run_owner.hpp"
#include "run/training/run_schedule.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {

struct EarlierAttempts;

/// One run: from a deck to a trained network in run.output_dir. Feeds a Trainer, and does what surrounds its steps:
/// evaluations, checkpoints, curves, stops. Every rank has one.
class TrainingRun {
 public:
  /// Opens the deck's files, restores the checkpoint to go on from, if any, and makes the output folder. `owner`:
  /// outlives the run; null: the run is the program's only one. `earlier`: the attempts whose checkpoints the run goes
  /// on from; outlives the run; null: none. Collective; whatever is wrong on any rank is thrown on all of them.
  TrainingRun(const RunConfig& config, const Communicator& comm, RunOwner* owner = nullptr,
              EarlierAttempts* earlier = nullptr);

  /// Trains until the deck or the owner ends the run (`done`), or until a signal, the end of the job, a file or the
  /// owner stops it (`stopped_early`), and writes a summary. Throws DivergedError. Collective.
  ExitStatus run();
  /// Why the run has stopped early, and on which rank; on rank 0.
  const std::string& stopped_by() const { return stop_vote_.reason(); }

  /// Does one step of all ranks, on the next batch; where ranks train separately, all steps up to a synchronization.
  /// `run` is a loop over it. Collective.
  const StepResult& step();

  /// Number of steps of the whole run.
  std::int64_t total_steps() const { return prepared_.total_steps(); }
  BatchFeed& batches() { return batches_; }
  RunTrainer& run_trainer() { return run_trainer_; }
  Trainer& trainer() { return trainer_; }

 private:
  // training_run_set_up.cpp
  std::optional<std::vector<NamedArray>> open_folder();

  /// What a run does next: goes on as it is, goes on from the checkpoint to which it has gone back, or stops because
  /// ranks have voted so.
  enum class Next { proceed, resume_checkpoint, stop };

  // training_run.cpp
  void announce();
  Next train_to_the_end();
  Next conclude();
  std::string final_status() const;
  RankRequests requests();
  void require_known_step(std::int64_t number) const;
  void settle_if_needed();
  bool finished() const { return trainer_.steps() >= total_steps() || evaluations_.end_run(); }
  void report(const StepOutcome& outcome);
  Next after_steps(std::int64_t steps, double seconds);
  [[nodiscard]] Next act_on(const StepOutcome& outcome);
  void log_step();
  bool ends_between_rows() const {
    return trainer_.steps() == total_steps() && state_.curves.has_unlogged(trainer_.steps());
  }
  CompletedSteps steps_done() const {
    return {trainer_.steps(), steps_at_once_, batches_.position_before(), state_.data.position,
            run_trainer_.has_common_parameters()};
  }
  /// Whether an evaluation is due. The row of a step comes before that of its evaluation: if the last step has a row
  /// only because it is the last, `run` writes that row, after the last checkpoint, and evaluates then.
  bool evaluation_due() const { return !ends_between_rows() && evaluations_.is_due(steps_done()); }
  RunEvaluations::Interruption interruption();
  Next validate(const std::function<void()>& before_acting = [] {});
  void checkpoint_if_due();
  void roll_back(StepOutcome outcome);

  // training_run_end.cpp
  [[noreturn]] void give_up(const StepOutcome& outcome);
  ExitStatus stop();
  void write_summary(const std::string& status, const std::string& failure = "");

  Communicator comm_;
  EarlierAttempts* earlier_;
  Watchdog::Run watchdog_;
  RunFolder folder_;
  Progress progress_;
  StopVote stop_vote_;
  PreparedRun prepared_;
  RunTrainer& run_trainer_;  ///< prepared_'s
  Trainer& trainer_;         ///< run_trainer_'s
  RunState state_;
  BatchFeed batches_;
  RunEvaluations evaluations_;
  RunCheckpointState saved_state_;
  StateAudit audit_;
  CheckpointSchedule checkpoint_schedule_;
  RunCheckpoints checkpoints_;

  StepResult last_step_;
  bool is_complete_ = false;        ///< the run had ended before this process, and nothing is left to do
  double longest_call_ = 0;         ///< seconds of the longest call of Trainer::step
  std::int64_t steps_at_once_ = 1;  ///< steps of the run that the last call of `step` has done
  double start_seconds_ = 0;        ///< seconds from the start of the process to the first step
};

}  // namespace lockstep
