// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// Steps that a batch has needed to the goal.
struct BatchSteps {
  double batch = 0;
  double steps = 0;
  double resolution = 0;  ///< steps between evaluations: it may have needed up to so many fewer
};

/// Steps against batch as S = S_min (1 + B_c / B) (McCandlish et al., "An empirical model of large-batch training",
/// 2018): below the critical batch B_c, twice the batch needs half the steps; far above it, as many.
struct ScalingFit {
  double least_steps = 0;           ///< S_min
  double critical_batch = 0;        ///< B_c
  std::optional<double> low, high;  ///< of B_c, with 95 % confidence; none: the data set no limit there
  double deviation = 0;             ///< of the logarithms of S, root mean square

  double steps_at(double batch) const { return least_steps * (1 + critical_batch / batch); }
  /// S_min B_c, of which the examples at batch B are the (1 + B / B_c)-fold.
  double least_examples() const { return least_steps * critical_batch; }
};

/// By least squares in the logarithm of S. None: fewer than three batches.
std::optional<ScalingFit> fit_scaling(std::span<const BatchSteps> points);

enum class Regime { perfect_scaling, diminishing_returns, maximal_data_parallelism };
inline constexpr const char* regime_names[] = {"perfect scaling", "diminishing returns", "maximal data parallelism"};
/// Perfect: at most 1.2 times the steps that S_min B_c examples are; maximal: at most 1.2 times S_min.
Regime regime_of(const ScalingFit& fit, double batch);

/// The largest batch whose steps are at most 1.2 times those that the smallest batch's make with perfect scaling,
/// between two measured ones by a straight line of logarithms (Zhang et al., "How does critical batch size scale in
/// pre-training?", 2024).
struct LargestEfficient {
  double batch = 0;
  bool is_limit = true;  ///< false: the largest batch measured is still efficient
};
std::optional<LargestEfficient> largest_efficient_batch(std::span<const BatchSteps> points);

/// The power p of y ∝ x^p by least squares of logarithms; none: fewer than two points.
std::optional<double> fit_power(std::span<const std::pair<double, double>> points);

}  // namespace lockstep
