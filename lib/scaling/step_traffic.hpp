// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "parallel/reducers/gradient_reducer.hpp"
#include "scaling/exchange_cost.hpp"
#include "scaling/machine.hpp"
#include "scaling/workload.hpp"

namespace lockstep {

/// What the ranks of a deck send each other in a step, and when it is needed, independent of their shares of the batch:
/// from the plans, buckets and schedules of a run.
struct StepTraffic {
  std::vector<ElementRange> buckets;                 ///< buckets of gradients, followed by those of statistics
  std::vector<ExchangeCost> sums;                    ///< one for each bucket
  std::vector<ExchangeCost> between_groups;          ///< one for each bucket, if gradients are divided: after the last
                                                     ///< micro-batch's sum
  std::vector<ReadyPoint> points;                    ///< points of the backward pass
  std::vector<GradientSumConfig::Overlap> overlaps;  ///< ways of overlapping that are tried
  ExchangeCost vote;
  ExchangeCost statistics;  ///< of batch norms, in a micro-batch
  ExchangeCost norms;       ///< partial sums that ranks with divided gradients exchange to clip them

  // For ranks that divide the model:
  bool divides = false;  ///< ranks divide the model
  double updated = 1;    ///< part of the parameters that the rank with the most of them updates
  UnshardPlan windows;
  std::vector<WindowTurn> turns;      ///< for divided gradients, which are summed in each micro-batch
  std::vector<ExchangeCost> gathers;  ///< after the update, in order, of parameters that all ranks hold completely
  std::vector<std::size_t> awaited;   ///< for each time of the step, how many of the gathers it waits for
  std::vector<ExchangeCost> units;    ///< cost of each unit of divided parameters

  bool divides_gradients() const { return windows.division.gradients; }
  bool divides_values() const { return windows.division.values; }
  /// What a rank sends in a step of so many micro-batches: gradients, parameters and statistics.
  ExchangeCost sent(std::int64_t micro_batches) const;
};

/// Returns the exchange of a step on so many ranks of the machine. Throws KeyError (parallel.shard_group) if they
/// cannot be divided in this way. `plan`: of the step. `sums`: of this machine, and of a config with the same
/// all-reduces.
StepTraffic step_traffic(const Workload& workload, const ParallelConfig& config, const Machine& machine, int ranks,
                         const ExecutionPlan& plan, SumsOfRanks& sums);

}  // namespace lockstep
