// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "scaling/compute_times.hpp"
#include "scaling/step_exchange.hpp"

namespace lockstep {

/// Seconds that a rank computes at each time (ParameterWindows) of a micro-batch of so many examples, which together
/// take `phases`. Times, not layers, since what runs in one segment waits together.
std::vector<double> seconds_of_times(const ComputeTimes& times, const StepPlan& plan, std::int64_t examples,
                                     const PhaseSeconds& phases);

/// How ranks that divide their model go through a step.
struct DividedStep {
  const StepExchange& exchange;
  std::vector<std::vector<double>> micro_batches;  ///< seconds of each time, of each of them
  double other = 0;                                ///< seconds in front of the first one
  ParallelConfig::Overlap overlap = ParallelConfig::Overlap::poll;
  bool has_device = false;

  /// Seconds beyond those that the rank computes, of a step that follows others: after an update, gathers begin, which
  /// the forward pass waits for; divided parameters come and go (WindowGather), and divided gradients are summed
  /// (WindowReducer) as the run does it. Sums of gradients that are not divided are not among them (sums_end).
  double exposed() const;
};

}  // namespace lockstep
