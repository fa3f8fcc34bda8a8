// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/deck/run_config.hpp"
#include "run/monitor/selection.hpp"
#include "study/pruner.hpp"
#include "study/search_space.hpp"

namespace lockstep {

/// How trials are judged after each evaluation.
struct GoalOptions {
  ValidationMetric metric{"validation_accuracy"};
  std::optional<double> value;  ///< value to be reached in as few steps as possible
  std::string best;             ///< "min" or "max", if no value is given

  /// Returns the metric's value, rounded as in metrics.csv, so that values read from there count the same; none: it is
  /// not finite.
  std::optional<double> value_of(const Metrics& metrics) const;
  bool is_reached_by(double result) const { return value && !metric.is_better(*value, result); }
  void describe(Fields& fields);
};

/// Length of a trial: the shorter one, if both are given.
struct BudgetOptions {
  std::optional<std::int64_t> steps, examples;

  /// Returns 0 if the examples are fewer than a batch.
  std::int64_t steps_of(std::int64_t batch) const;
  void describe(Fields& fields);
};

/// Branches instead of a search: each batch goes on from a checkpoint of the base deck, with a learning rate that
/// depends on the batch, through the same number of examples (Merrill et al., "Critical batch size revisited", 2025).
struct BranchOptions {
  bool present = false;
  std::string checkpoint;  ///< path as written in the study file
  std::string rate;        ///< linear or sqrt
  double tolerance = 0.01;
  // Read from the checkpoint:
  std::optional<std::int64_t> step, batch;
  std::optional<double> learning_rate;

  /// Returns the learning rate of a batch. The checkpoint's batch and learning rate must be known.
  double rate_of(std::int64_t of_batch) const;
  void describe(Fields& fields);
};

/// A study file: a base deck, what varies in it, and the goal of the search.
struct StudyConfig : Config {
  std::string name;        ///< empty: the name of the file
  std::string output_dir;  ///< empty: studies/<name>
  std::string base;        ///< path of the base deck, as written in the study file
  std::vector<std::int64_t> batches;
  std::vector<std::string> vary_keys;
  std::vector<std::vector<std::string>> vary_values;
  BranchOptions branch_from;
  SearchSpace space;
  GoalOptions goal;
  BudgetOptions budget;
  std::optional<std::int64_t> evaluations;
  std::optional<std::int64_t> trials_feasible;
  PruneOptions prune;
  std::int64_t ranks_per_trial = 1;
  std::int64_t seed = 1;
  std::int64_t seeds = 1;
  std::string wall_time;

  DeckNode source;  ///< what the study was read from

  void describe(Fields& fields) override;
  /// Path of the base deck, as seen from the working folder.
  std::string base_file() const;
  /// Path of the checkpoint, as seen from the working folder.
  std::string branch_file() const;
  /// Throws DeckError if one of these two files does not exist.
  void require_files() const;
  std::string folder() const;
  /// Number of feasible trials that each group is to have.
  std::int64_t trials() const { return trials_feasible.value_or(space.keys.empty() ? seeds : 20); }
  bool is_ensemble() const { return space.keys.empty(); }

 private:
  void check_rules(Fields& fields);
};

/// Throws Error(bad_deck) for everything that the file alone shows to be wrong.
StudyConfig read_study_config(DeckNode file);

}  // namespace lockstep
