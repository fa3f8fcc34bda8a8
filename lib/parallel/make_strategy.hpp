// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/device_all_reduce.hpp"
#include "config/deck.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// Returns the groups that divide the model. `source` is the deck; error messages name its lines. Throws KeyError, with
/// its position, if ranks cannot be divided so. Collective.
ShardGroups shard_groups(const ParallelConfig& config, const DeckNode& source, const Topology& all);

/// Memory in which gradients are summed, and through which layers see them and the parameters.
struct SumMemory {
  std::unique_ptr<DeviceAllReduce> on_devices;  ///< null: the hosts make the sums
  ParallelMemory on_hosts;
};
/// Returns the memory that the deck asks for, as far as the machine has it. `dtype` is that of the activations.
/// Collective.
SumMemory sum_memory(const ParallelConfig& config, const DeckNode& source, const ShardGroups& groups,
                     const Graph& graph, const ExecutionPlan& plan, DType dtype);

/// Makes the strategy by which ranks train synchronously. `measured`: see make_all_reduce. `seed` is that of random
/// draws. `parameters` must outlive it. Collective.
std::unique_ptr<ParallelStrategy> make_strategy(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                                std::uint64_t seed, const ShardGroups& groups, SumMemory memory,
                                                ParameterBuffer& parameters);

/// Makes another strategy for these ranks. `parameters` outlives it. Collective.
using MakeStrategy =
    std::function<std::unique_ptr<ParallelStrategy>(const ShardGroups& groups, ParameterBuffer& parameters)>;

/// Returns the all-reduce between devices if the deck sums gradients in their memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const ParallelConfig& config, const DeckNode& source,
                                                 const Communicator& comm);

}  // namespace lockstep
