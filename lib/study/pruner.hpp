// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// An evaluation of a trial. No value: it is not finite.
struct TrialReport {
  std::int64_t step = 0;
  std::optional<double> value;
};

/// The part of a trial that counts: up to its end, or as far as it is known.
struct TrialCurve {
  std::vector<TrialReport> reports;
  std::optional<std::int64_t> goal_step;  ///< step of the first report that reaches the goal
  bool complete = false;                  ///< it has come to its own end instead of being cut off
  std::vector<double> rungs;              ///< for ASHA: its value at each rung that it has reached
};

enum class Order { less_is_better, more_is_better };

/// Decides which trials end early. A trial is compared only with trials of smaller numbers, whatever runs at the same
/// time, so that a study's results depend neither on the number of slots nor on timing.
class Pruner {
 public:
  virtual ~Pruner() = default;
  /// Returns whether `own` ends at its last report, which has a value. `before`: all trials of smaller numbers, each
  /// known at least up to that step, or to its end.
  virtual bool ends(std::span<const TrialCurve* const> before, TrialCurve& own) const = 0;
  /// Whether `ends` needs trials of smaller numbers up to their ends.
  virtual bool needs_their_ends() const { return false; }
};

/// The keys prune, asha and median of a study.
struct PruneOptions {
  enum class Kind { exact, asha, median, none };
  std::optional<Kind> kind;
  std::optional<std::int64_t> min_resource;
  std::int64_t reduction_factor = 4, min_early_stopping_rate = 0;
  std::int64_t startup_trials = 5, warmup_steps = 0;

  void describe(Fields& fields, bool has_goal_value, bool is_ensemble);
  /// `budget`: number of steps of a trial; `seeds`: number of runs of each point.
  std::unique_ptr<Pruner> make(Order order, std::int64_t budget, std::int64_t seeds) const;
};

/// Once a trial has reached the goal at some step, later trials of the same seed end at that step. Trials take `seeds`
/// seeds in turn; the fewest steps to the goal with each seed stay the same.
std::unique_ptr<Pruner> exact_pruner(std::int64_t seeds);
/// ASHA: Li et al., "A system for massively parallel hyperparameter tuning", 2020, as in Optuna's
/// SuccessiveHalvingPruner. Rung i is the first report at or after step min_resource · factor^(rate + i); there the
/// best ⌊n / factor⌋ of n trials go on, but at least one.
std::unique_ptr<Pruner> asha_pruner(Order order, std::int64_t min_resource, std::int64_t factor, std::int64_t rate);
/// Golovin et al., "Google Vizier", 2017, as in Optuna's MedianPruner: a trial ends if its best result is worse than
/// the median of the complete trials' results at this step, of which there must be some.
std::unique_ptr<Pruner> median_pruner(Order order, std::int64_t startup_trials, std::int64_t warmup_steps);
std::unique_ptr<Pruner> no_pruner();

}  // namespace lockstep
