// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/device_all_reduce.hpp"
#include "config/deck.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// Groups of ranks that work together.
struct RankGroups {
  ShardGroups shards;  ///< the ranks that divide the model, and all ranks
  Topology step;       ///< the ranks that do a step together: those of an asynchronous worker, or all
};
/// Returns the groups that the deck asks for. `source`: see StrategyRun. Throws KeyError, with its position, if ranks
/// cannot be divided so. Collective.
RankGroups rank_groups(const ParallelConfig& config, const DeckNode& source, const Topology& all);

/// Memory in which gradients are summed, and through which layers see them and the parameters.
struct SumMemory {
  std::unique_ptr<DeviceAllReduce> on_devices;  ///< null: the hosts make the sums
  ParallelMemory on_hosts;
};
/// Returns the memory that the deck asks for, as far as the machine has it. `dtype` is that of the activations.
/// Collective.
SumMemory sum_memory(const ParallelConfig& config, const DeckNode& source, const RankGroups& groups, const Graph& graph,
                     const ExecutionPlan& plan, DType dtype);

/// The order in which gradients of workers that do not wait for each other are applied.
struct GradientOrder {
  PushOrder pushes;          ///< if it is simulated, or that of a record; else empty
  std::int64_t known_steps;  ///< steps whose gradients have a known order: all, unless a record ends earlier
  std::function<bool(std::int64_t)> syncs = [](std::int64_t) { return true; };  ///< see WorkersCourse
};

/// What a strategy depends on besides the deck's `parallel`.
struct StrategyRun {
  const DeckNode& source;                  ///< the deck; error messages name its lines
  std::int64_t batch = 0;                  ///< examples of a batch
  std::uint64_t seed = 0;                  ///< of random draws
  std::span<const AllReduceRow> measured;  ///< see make_all_reduce
  GradientOrder order;
};

/// Makes the strategy by which ranks share the work, without parallel.local. What is taken by reference, except
/// `config`, `groups` and `run.source`, must outlive it. Collective.
std::unique_ptr<ParallelStrategy> make_strategy(const ParallelConfig& config, StrategyRun run, const RankGroups& groups,
                                                SumMemory memory, ParameterBuffer& parameters);

/// Returns the all-reduce between devices if the deck sums gradients in their memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const ParallelConfig& config, const DeckNode& source,
                                                 const Communicator& comm);

}  // namespace lockstep
