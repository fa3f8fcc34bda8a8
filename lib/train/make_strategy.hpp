// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/device_all_reduce.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/shard_groups.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Where the deck has gradients summed in the devices' memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const TrainingConfig& config, const Communicator& comm);

/// How the deck has ranks share the work: all of `topology`, and those of a step (`group`). `memory` and `on_devices`:
/// that gradients are summed in. All references outlive the strategy but `config`. Collective.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingConfig& config, TrainingProblem& problem,
                                                const Topology& topology, const Topology& group,
                                                const ShardGroups& groups, ParallelMemory memory,
                                                std::unique_ptr<DeviceAllReduce> on_devices,
                                                const BatchPartition& partition, ParameterBuffer& parameters);

}  // namespace lockstep
