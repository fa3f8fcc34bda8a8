// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/plan/execution_plan.hpp"
#include "nn/statistics_exchange.hpp"

namespace lockstep {

/// Carries the batch statistics of layers from where a rank has observed all of its examples to where layers need the
/// statistics of the whole batch. In between they are exchanged with other ranks, if these have some of the examples.
class StatisticsInFlight {
 public:
  /// `exchange`: null if each rank's statistics are its own.
  void attach(StatisticsExchange* exchange) { exchange_ = exchange; }

  /// Called when all of this rank's `examples` have been through the segment: starts the exchange of the statistics
  /// that its layers have observed in tasks of kind `observed`.
  void send(const PassContext& context, Graph& graph, const Segment& segment, Task::Kind observed,
            std::int64_t examples);
  /// Waits for the exchange in progress if the segment needs its results.
  void await(const PassContext& context, const Graph& graph, const Segment& segment);
  /// Waits for the exchange in progress, if any.
  void finish(const PassContext& context);

 private:
  StatisticsExchange* exchange_ = nullptr;
  std::vector<Layer*> layers_;                ///< the layers whose statistics are being exchanged
  std::vector<BatchStatistics*> statistics_;  ///< the statistics of these layers
  bool are_moments_ = false;                  ///< true for moments (forward pass), false for sums (backward pass)
  std::int64_t examples_ = 0;                 ///< number of this rank's examples that they cover
};

}  // namespace lockstep
