// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/device_all_reduce.hpp"
#include "parallel/parallel_memory.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Groups of ranks that work together.
struct RankGroups {
  ShardGroups shards;  ///< the ranks that divide the model, and all ranks
  Topology step;  ///< the ranks that do a step together: those of a worker, those of a group of parallel.local, or all
};
/// Returns the groups that the deck asks for. Throws KeyError, with its position, if ranks cannot be divided so.
/// Collective.
RankGroups rank_groups(const TrainingConfig& config, const Topology& all);

/// Memory in which gradients are summed, and through which layers see them and the parameters.
struct SumMemory {
  std::unique_ptr<DeviceAllReduce> on_devices;  ///< null: the hosts make the sums
  ParallelMemory on_hosts;
};
/// Returns the memory that the deck asks for, as far as the machine has it. Collective.
SumMemory sum_memory(const TrainingConfig& config, const RankGroups& groups, const Graph& graph,
                     const ExecutionPlan& plan);

/// Makes the strategy by which the deck's ranks share the work. All arguments taken by reference, except `config` and
/// `groups`, must outlive it. Collective.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingConfig& config, TrainingProblem& problem,
                                                const RankGroups& groups, SumMemory memory,
                                                const BatchPartition& partition, ParameterBuffer& parameters);

}  // namespace lockstep
