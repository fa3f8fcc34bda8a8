// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/capabilities.hpp"
#include "data/data_config.hpp"
#include "run/monitor/selection.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// The deck's `run` section.
struct RunOptions {
  std::string name = "run";
  std::string output_dir;  ///< empty: runs/<name>
  std::int64_t seed = 1;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  TargetOptions target;
  PatienceOptions patience;
  std::string resume = "auto";
  std::string branch_from;  ///< a checkpoint; empty: the run begins anew
  bool overwrite = false;
  std::int64_t log_every = 50;
  std::string evaluate_every = "1 epoch";    ///< see evaluation_interval
  std::string wall_time;                     ///< see wall_limit; empty: no limit
  std::optional<std::int64_t> hang_timeout;  ///< seconds

  struct Interval {
    std::int64_t count = 0;  ///< 0: never
    bool in_steps = false;   ///< else in epochs
  };
  Interval evaluation_interval() const;
  /// Whether an evaluation may end the run before its last step.
  bool may_end_early() const { return target.present || patience.present; }
  std::optional<double> wall_limit() const;  ///< `wall_time` in seconds; none: no limit
  void describe(Fields& fields);
};

struct CheckpointOptions {
  std::int64_t every_steps = 0;
  std::int64_t every_epochs = 0;
  double every_minutes = 0;
  std::int64_t keep = 2;
  KeepBestOptions keep_best;

  /// Whether checkpoints are written to disk before the last step.
  bool regular() const { return every_steps > 0 || every_epochs > 0 || every_minutes > 0 || keep_best.present; }
  void describe(Fields& fields);
};

/// A whole deck.
struct RunConfig : Config, TrainingConfig {
  RunOptions run;
  DataConfig data;
  CheckpointOptions checkpoint;

  void describe(Fields& fields) override;
  /// What decides which options of a deck go with which others, whether this deck uses them or not.
  std::vector<Option> options() const;
  Selection::Options selection() const { return {run.target, run.patience, checkpoint.keep_best}; }
  std::string output_dir() const { return run.output_dir.empty() ? "runs/" + run.name : run.output_dir; }

 private:
  // Rules of which options() says nothing: what a key needs of its own value or of values in other sections.
  void check_branch(Fields& fields) const;
  void check_parallel(Fields& section) const;  // keys of `parallel`
  void check_reaction(Fields& section) const;  // keys of `loss_watch`, if it is there
};

/// Returns the length of the run on `examples` training examples, if neither target nor patience ends it before. Throws
/// KeyError if the points of batch.ramp are out of order.
RunLength run_length(const RunConfig& config, std::int64_t examples);
/// Says which of run.epochs and run.steps ends a run that has both, as in " (run.steps; run.epochs would be 3600)".
/// Empty if only one is given or both end it at the same step.
std::string end_of_run_text(const RunConfig& config, std::int64_t examples);

/// Throws Error(bad_deck) for everything that the deck alone shows to be wrong; a DeckError if that is one thing.
RunConfig read_run_config(DeckNode deck);
/// Returns a line for each file that the deck starts from and that does not exist, each after a line break; none for
/// keys that `error` is about.
std::string missing_files(const DeckNode& deck, const std::string& error);
/// Returns what `work` returns for a deck. An error in the deck itself (bad_deck) is thrown on with its missing_files:
/// whoever corrects it learns of both at once.
template <class Work>
auto naming_missing_files(const DeckNode& deck, const Work& work) {
  try {
    return work();
  } catch (const SharedError& error) {
    if (error.status() != ExitStatus::bad_deck) throw;
    throw SharedError(error.status(), error.what() + missing_files(deck, error.what()));
  } catch (const Error& error) {
    if (error.status() != ExitStatus::bad_deck) throw;
    throw Error(error.status(), error.what() + missing_files(deck, error.what()));
  }
}

}  // namespace lockstep
