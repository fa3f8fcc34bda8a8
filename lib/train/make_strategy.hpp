// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/device_all_reduce.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/shard_groups.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Which ranks do what together.
struct RankGroups {
  ShardGroups shards;  ///< that divide the model; with all ranks
  Topology step;       ///< those of a step: a worker's, or that step without the others for a while, or all
};
/// As the deck has them. Throws KeyError, with its position, where ranks cannot be divided so. Collective.
RankGroups rank_groups(const TrainingConfig& config, const Topology& all);

/// What gradients are summed in, and how layers see them and the parameters.
struct SumMemory {
  std::unique_ptr<DeviceAllReduce> on_devices;  ///< null: sums are the hosts'
  ParallelMemory on_hosts;
};
/// What the deck wants, where it can be had. Collective.
SumMemory sum_memory(const TrainingConfig& config, const RankGroups& groups, const Graph& graph, const StepPlan& plan);

/// How the deck has ranks share the work. All references outlive the strategy but `config` and `groups`. Collective.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingConfig& config, TrainingProblem& problem,
                                                const RankGroups& groups, SumMemory memory,
                                                const BatchPartition& partition, ParameterBuffer& parameters);

}  // namespace lockstep
