// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "scaling/compute_times.hpp"
#include "scaling/step_traffic.hpp"

namespace lockstep {

/// Returns the seconds that a rank computes at each time (UnshardPlan) of a micro-batch of so many examples, which
/// together take `phases`. They are for times, not layers, since what runs in one segment waits together.
std::vector<double> seconds_of_times(const ComputeTimes& times, const ExecutionPlan& plan, std::int64_t examples,
                                     const PhaseSeconds& phases);

/// A step of ranks that divide their model.
struct DividedStep {
  const StepTraffic& exchange;
  std::vector<std::vector<double>> micro_batches;  ///< for each micro-batch, the seconds of each time
  double other = 0;                                ///< seconds before the first micro-batch
  GradientSumConfig::Overlap overlap = GradientSumConfig::Overlap::poll;
  bool has_device = false;

  /// Seconds of the step beyond those in which the rank computes, if it follows other steps. Gathers begin after an
  /// update, and the forward pass waits for them; divided parameters come and go (ParameterUnsharder), and divided
  /// gradients are summed (ShardedGradientReducer) as in the run. Sums of gradients that are not divided are not
  /// included (sums_end).
  double exposed() const;
};

}  // namespace lockstep
