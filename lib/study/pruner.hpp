// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// An evaluation of a trial. None: what was wanted is not finite.
struct TrialReport {
  std::int64_t step = 0;
  std::optional<double> value;
};

/// What counts of a trial: up to where it ends, or to where it has come.
struct TrialCurve {
  std::vector<TrialReport> reports;
  std::optional<std::int64_t> goal_step;  ///< of the first report that reaches the goal
  bool complete = false;                  ///< it has come to its own end, and was not cut off
  std::vector<double> rungs;              ///< ASHA: what it had at each rung that it has come to
};

enum class Order { less_is_better, more_is_better };

/// Decides which trials end early. A trial is compared with those of smaller numbers alone, whatever runs meanwhile, so
/// that what a study finds depends neither on the number of slots nor on time.
class Pruner {
 public:
  virtual ~Pruner() = default;
  /// Whether `own` ends at its last report, which has a value. `before`: trials of smaller numbers, each up to that
  /// step at least, or to its end.
  virtual bool ends(std::span<const TrialCurve* const> before, TrialCurve& own) const = 0;
  /// Whether it has to know of these how they end.
  virtual bool needs_their_ends() const { return false; }
};

/// The study's prune, asha and median.
struct PruneOptions {
  enum class Kind { exact, asha, median, none };
  std::optional<Kind> kind;
  std::optional<std::int64_t> min_resource;
  std::int64_t reduction_factor = 4, min_early_stopping_rate = 0;
  std::int64_t startup_trials = 5, warmup_steps = 0;

  void describe(Fields& fields, bool has_goal_value, bool is_ensemble);
  /// `budget`: steps of a trial; `seeds`: runs of each point.
  std::unique_ptr<Pruner> make(Order order, std::int64_t budget, std::int64_t seeds) const;
};

/// Once a trial has reached the goal at some step, the others of its seed end there: the least steps to the goal stay
/// what they are, of each of the `seeds` that trials have in turn.
std::unique_ptr<Pruner> exact_pruner(std::int64_t seeds);
/// Li et al., "A system for massively parallel hyperparameter tuning", 2020, as Optuna's SuccessiveHalvingPruner has
/// it: at the first report at or after step min_resource · factor^(rate + i), rung i, the best ⌊n / factor⌋ of n go
/// on, and in any case the best one.
std::unique_ptr<Pruner> asha_pruner(Order order, std::int64_t min_resource, std::int64_t factor, std::int64_t rate);
/// Golovin et al., "Google Vizier", 2017, as Optuna's MedianPruner has it: a trial ends whose best result is worse than
/// the median, at this step, of the trials that are complete, of which there must be some.
std::unique_ptr<Pruner> median_pruner(Order order, std::int64_t startup_trials, std::int64_t warmup_steps);
std::unique_ptr<Pruner> no_pruner();

}  // namespace lockstep
