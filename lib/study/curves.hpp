// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "study/results.hpp"

namespace lockstep {

/// Number of steps that a batch size has needed to reach the goal.
struct BatchSteps {
  double batch = 0;
  double steps = 0;
  double resolution = 0;  ///< steps between evaluations: up to so many fewer may have been enough
};

/// Steps as a function of the batch, S = S_min (1 + B_c / B) (McCandlish et al., "An empirical model of large-batch
/// training", 2018): far below the critical batch B_c, twice the batch needs half the steps; far above it, as many.
struct ScalingFit {
  double least_steps = 0;           ///< S_min
  double critical_batch = 0;        ///< B_c
  std::optional<double> low, high;  ///< limits of B_c at 95 % confidence; none: the data give no limit on that side
  double deviation = 0;             ///< root mean square deviation of ln S

  double steps_at(double batch) const { return least_steps * (1 + critical_batch / batch); }
  /// S_min B_c. The examples at batch B are (1 + B / B_c) times as many.
  double least_examples() const { return least_steps * critical_batch; }
};

/// Fits by least squares in ln S. None for fewer than three batches.
std::optional<ScalingFit> fit_scaling(std::span<const BatchSteps> points);

enum class Regime { perfect_scaling, diminishing_returns, maximal_data_parallelism };
inline constexpr const char* regime_names[] = {"perfect scaling", "diminishing returns", "maximal data parallelism"};
/// Perfect scaling: at most 1.2 times the steps that S_min B_c examples take. Maximal data parallelism: at most 1.2
/// times S_min.
Regime regime_of(const ScalingFit& fit, double batch);

/// The largest batch that needs at most 1.2 times the steps that perfect scaling from the smallest batch gives,
/// interpolated between measured batches by a straight line of logarithms (Zhang et al., "How does critical batch size
/// scale in pre-training?", 2024).
struct LargestEfficient {
  double batch = 0;
  bool is_limit = true;  ///< false: the largest batch measured is still efficient
};
std::optional<LargestEfficient> largest_efficient_batch(std::span<const BatchSteps> points);

/// Returns the exponent p of y ∝ x^p by least squares of logarithms; none for fewer than two points.
std::optional<double> fit_power(std::span<const std::pair<double, double>> points);

/// Groups that differ only in their batch, with what follows from them together.
struct ScalingCurve {
  std::string name;                        ///< the other settings that vary; empty: none
  std::vector<const GroupResult*> groups;  ///< in the order of batches
  std::vector<BatchSteps> steps;           ///< of the groups that have reached the goal
  std::optional<ScalingFit> fit;
  std::optional<LargestEfficient> largest_efficient;
  std::optional<double> rate_power;  ///< exponent p: the best effective learning rate grows as batch^p
};

/// Returns the curves of a study of batches with a goal value; none for other studies. They point into `results`.
std::vector<ScalingCurve> scaling_curves(const StudyResults& results);

/// Result of the branches of one batch.
struct BranchPoint {
  double batch = 0;
  double learning_rate = 0;
  std::optional<double> value;  ///< last result, as the mean over all seeds; none: a branch has diverged or is missing
  bool is_pending = false;      ///< `value` is not known yet: branches are missing, and none has diverged
};

/// Branches that differ only in their batch. All have gone through the same number of examples.
struct BranchCurve {
  std::string name;                 ///< the other settings that vary; empty: none
  std::vector<BranchPoint> points;  ///< in the order of batches
  std::optional<double> reference;  ///< value at the checkpoint's own batch
  /// The largest batch up to which no value is worse than the reference by more than the tolerance (Merrill et al.,
  /// "Critical batch size revisited", 2025); none if it is unknown.
  std::optional<double> critical_batch;
  bool is_limit = true;  ///< false: it may be larger
};

/// Returns none if the study is not one of branches.
std::vector<BranchCurve> branch_curves(const StudyResults& results);

}  // namespace lockstep
