// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "monitor/progress.hpp"
#include "resilience/watchdog.hpp"
#include "run/experiment/experiment.hpp"
#include "run/folder/run_folder.hpp"
#include "run/training/run_batches.hpp"
#include "run/training/run_checkpoints.hpp"
#include "run/training/run_evaluations.hpp"
#include "run/training/run_owner.hpp"
#include "run/training/run_state.hpp"
#include "run/training/steps_done.hpp"
#include "run/training/stop_vote.hpp"
#include "train/balance/load_balance.hpp"
#include "train/trainer.hpp"

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
  /// Ranks divide batches by these parts (BatchPartition) as soon as loaders can do it, of a run with parallel.shares:
  /// measured on several ranks. Collective.
  void deal_shares(const std::vector<std::int64_t>& parts);

  /// Steps of the whole run.
  std::int64_t total_steps() const { return run_length(config_, data_.train->size()).steps(); }
  Trainer& trainer() { return *trainer_; }

 private:
  // training_run_set_up.cpp
  std::map<std::string, std::string> checkpoint_texts();
  void begin();
  bool open_folder();
  void restore(const Checkpoint& checkpoint, const std::string& file);
  void branch();
  void share_state();
  void describe_state(StateFields& fields);

  // training_run.cpp
  void step_once();
  bool train_to_the_end();
  bool finished() const { return trainer_->steps() >= total_steps() || evaluations_->end_run(); }
  void take(StepResult result);
  bool reads_parameters() const;
  void after_steps(std::int64_t steps, double seconds);
  void log_step();
  bool ends_between_rows() const {
    return trainer_->steps() == total_steps() && state_.curves.has_unlogged(trainer_->steps());
  }
  StepsDone steps_done() const {
    return {trainer_->steps(), steps_at_once_, batches_->position_before(), state_.data.position};
  }
  /// The row of a step comes before that of its evaluation. Where the last step has a row only because it is the last,
  /// `run` writes it, behind the last checkpoint, and sees to the evaluation as well.
  bool evaluation_due() const { return !ends_between_rows() && evaluations_->is_due(steps_done()); }
  RunEvaluations::Interruption interruption();
  bool validate();
  void checkpoint_if_due();
  void roll_back();

  // training_run_end.cpp
  bool wants_to_stop(bool saved);
  bool parameters_are_of_use();
  [[noreturn]] void give_up();
  ExitStatus stop();
  void write_summary(const std::string& status);

  const Communicator& comm_;
  EarlierAttempts* earlier_;
  RunConfig config_;
  std::string deck_;  ///< resolved, as text
  Watchdog watchdog_;
  RunFolder folder_;
  Datasets data_;
  std::string provenance_;  ///< of what this run is made; JSON
  RunState state_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<RunBatches> batches_;
  std::optional<LoadBalance> balance_;
  Progress progress_;
  std::optional<RunEvaluations> evaluations_;
  std::optional<RunCheckpoints> checkpoints_;
  StopVote stop_vote_;

  StepResult last_step_;
  bool is_complete_ = false;        ///< nothing is left to do, as an earlier process has found
  std::int64_t steps_at_once_ = 1;  ///< the run's, that were done by the last call of `step`
  double start_seconds_ = 0;        ///< from the start of the process to the first step
};

}  // namespace lockstep
