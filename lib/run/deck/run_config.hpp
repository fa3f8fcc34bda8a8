// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "data/data_config.hpp"
#include "monitor/selection.hpp"
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
  std::string wall_time;                     ///< see wall_limit; empty: there is none
  std::optional<std::int64_t> hang_timeout;  ///< seconds

  struct Interval {
    std::int64_t count = 0;  ///< 0: never
    bool in_steps = false;   ///< not epochs
  };
  Interval evaluation_interval() const;
  std::optional<double> wall_limit() const;  ///< seconds that `wall_time` stands for
  void describe(Fields& fields);
};

struct CheckpointOptions {
  std::int64_t every_steps = 0;
  std::int64_t every_epochs = 0;
  double every_minutes = 0;
  std::int64_t keep = 2;
  KeepBestOptions keep_best;
  std::int64_t neighbours_every = 0;

  /// Whether there are any on disk before the last one.
  bool regular() const { return every_steps > 0 || every_epochs > 0 || every_minutes > 0 || keep_best.present; }
  void describe(Fields& fields);
};

/// A whole deck.
struct RunConfig : Config, TrainingConfig {
  RunOptions run;
  DataConfig data;
  CheckpointOptions checkpoint;

  void describe(Fields& fields) override;
  Selection::Options selection() const { return {run.target, run.patience, checkpoint.keep_best}; }
  std::string output_dir() const { return run.output_dir.empty() ? "runs/" + run.name : run.output_dir; }
};

/// How long the run is on so many training examples, unless it reaches its target before. Throws KeyError for batches
/// of which drop_last leaves none.
RunLength run_length(const RunConfig& config, std::int64_t examples);
/// Which of run.epochs and run.steps ends the run, where it has both: " (run.steps; run.epochs would be 3600)"; else
/// empty.
std::string end_of_run_text(const RunConfig& config, std::int64_t examples);

/// Throws Error(bad_deck) for whatever the deck alone shows to be wrong: a DeckError, where it is one thing.
RunConfig read_run_config(DeckNode deck);
/// Reads a deck that a run has left, in a checkpoint say: keys of earlier builds count under the names that they have
/// now.
RunConfig read_stored_config(const std::string& text, const std::string& file);

}  // namespace lockstep
