// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/plan/step_plan.hpp"
#include "nn/statistics_exchange.hpp"

namespace lockstep {

/// The statistics of layers between where a rank has them of its examples and where layers need them of the whole
/// batch. They are on their way meanwhile, if other ranks have some of the examples.
class StatisticsInFlight {
 public:
  /// `exchange`: null: the ranks' batches have nothing to do with each other.
  void attach(StatisticsExchange* exchange) { exchange_ = exchange; }

  /// All of this rank's `examples` have been through the segment: what its layers have observed, by tasks of this kind,
  /// goes on its way.
  void send(const StepContext& context, Graph& graph, const Segment& segment, Task::Kind observed,
            std::int64_t examples);
  /// Waits for those on their way, if the segment needs them.
  void await(const StepContext& context, const Graph& graph, const Segment& segment);
  /// Waits for all of them.
  void finish(const StepContext& context);

 private:
  StatisticsExchange* exchange_ = nullptr;
  std::vector<Layer*> layers_;                ///< whose statistics are on their way
  std::vector<BatchStatistics*> statistics_;  ///< theirs
  bool are_moments_ = false;                  ///< as in a forward pass
  std::int64_t examples_ = 0;                 ///< of this rank, that they are of
};

}  // namespace lockstep
