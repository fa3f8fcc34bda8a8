// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "parallel/reducers/buckets.hpp"
#include "scaling/machine.hpp"
#include "scaling/sums.hpp"
#include "scaling/workload.hpp"

namespace lockstep {

/// What ranks of a deck send each other in a step, and what it has to be done before, whatever their shares of its
/// batch: from the plans, the buckets and the schedules that a run has.
struct StepExchange {
  std::vector<Stretch> buckets;                   ///< of gradients, statistics after them
  std::vector<ExchangeCost> sums;                 ///< of each
  std::vector<ExchangeCost> between_groups;       ///< of each where gradients are divided: after the last micro-batch's
  std::vector<ReadyPoint> points;                 ///< of the backward pass
  std::vector<ParallelConfig::Overlap> overlaps;  ///< that are tried
  ExchangeCost vote;
  ExchangeCost statistics;  ///< of batch norms, in a micro-batch
  ExchangeCost norms;       ///< partial sums that ranks which divide gradients exchange to clip them

  // Of ranks that divide the model:
  double updated = 1;  ///< part of the parameters that a rank updates
  ParameterWindows windows;
  std::vector<WindowTurn> turns;      ///< of divided gradients, whose sums are of each micro-batch
  std::vector<ExchangeCost> gathers;  ///< after the update, in their order, of parameters that all ranks have whole
  std::vector<std::size_t> awaited;   ///< how many of them each time of the step waits for
  std::vector<ExchangeCost> units;    ///< of divided parameters

  bool divides_gradients() const { return windows.division.gradients; }
  bool divides_values() const { return windows.division.values; }
  /// What a rank sends in a step of so many micro-batches: gradients, parameters and statistics.
  ExchangeCost sent(std::int64_t micro_batches) const;
};

/// On so many ranks of the machine. Throws KeyError (parallel.shard_group) where they cannot be divided so. `plan`: of
/// the step; `sums`: of this machine, and a config that has the same all-reduces.
StepExchange step_exchange(const Workload& workload, const ParallelConfig& config, const Machine& machine, int ranks,
                           const StepPlan& plan, SumsOfRanks& sums);

}  // namespace lockstep
