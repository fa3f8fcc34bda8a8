// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/make_strategy.hpp"

#include <optional>
#include <utility>

#include "parallel/asynchronous/free_parallel.hpp"
#include "parallel/asynchronous/simulated_gradients.hpp"
#include "parallel/asynchronous/simulated_workers.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/local/local_parallel.hpp"
#include "parallel/sharded/sharded_parallel.hpp"

namespace lockstep {
namespace {

/// Returns the all-reduce between devices if the deck sums gradients in their memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const ParallelConfig& config, const DeckNode& source,
                                                 const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively([&] { with_positions(source, [&] { sums = choose_device_sums(config, facts); }); });
  return device_all_reduce(sums, comm);
}

/// Makes the parts of a strategy that does steps in groups of ranks and sums over all ranks between them. Collective.
LocalParallel::Parts local_parts(const ParallelConfig& config, const StrategyRun& run, const RankGroups& groups,
                                 SumMemory memory, ParameterBuffer& parameters) {
  const ShardGroups& all = groups.shards;
  const Topology& group = groups.step;
  const bool on_device = memory.on_devices != nullptr;
  // Only sums over all ranks use the node's shared memory; those of a group, and of a node, go by messages.
  const auto sums_in = [&](const Topology& ranks) {
    return std::make_unique<DataParallel>(
        config, std::span<const AllReduceRow>(), ShardGroups(config, ranks), std::nullopt,
        on_device && ranks.all.size() > 1 ? sums_on_devices(config, run.source, ranks.all)
                                          : std::unique_ptr<DeviceAllReduce>(),
        parameters);
  };
  LocalParallel::Parts parts;
  if (run.counts_own_steps) parts.own_steps = std::make_unique<OwnSteps>(group.all);
  parts.all = std::make_unique<DataParallel>(config, run.measured, all, std::move(memory.on_hosts.gradients),
                                             std::move(memory.on_devices), parameters);
  parts.group = sums_in(group);
  const Topology& ranks = all.ranks;
  if (config.local.nests() && ranks.node.size() > group.all.size()) parts.node = sums_in(ranks.of(ranks.node));
  if (config.local.streams()) parts.fragments = std::make_unique<FragmentSums>(config, all, parameters.layout());
  if (config.local.outer == LocalConfig::Outer::adasum)
    parts.adasum = std::make_unique<AdasumExchange>(
        all.ranks.all, group.all, parameters.layout(),
        flat_part(parameters.gradients(), {0, parameters.layout().summed_size()}));
  return parts;
}

/// Makes the strategy that sums the gradients of a simulated update: over ranks of the same place, one of each set of
/// ranks that compute a gradient together. Collective.
std::unique_ptr<ParallelStrategy> sums_of_updates(ParallelConfig config, const Topology& topology,
                                                  ParameterBuffer& parameters) {
  const int together = SimulatedGradients::ranks_of_gradient(config.asynchronous, topology.all.size());
  config.asynchronous.recorded.members = 1;  // the pieces of a gradient are summed before
  const Topology ranks = topology.of(topology.all.split(topology.all.rank() % together));
  return std::make_unique<DataParallel>(config, std::span<const AllReduceRow>(), ShardGroups(config, ranks),
                                        std::nullopt, nullptr, parameters);
}

}  // namespace

RankGroups rank_groups(const ParallelConfig& config, const DeckNode& source, const Topology& all) {
  std::optional<ShardGroups> shards;
  Topology step = all;
  all.all.run_collectively([&] {
    with_positions(source, [&] {
      shards.emplace(config, all);
      if (config.has_workers()) step = all.of(all.all.split(all.all.rank() / config.ranks_of_worker(all.all.size())));
      else if (config.local.present) step = local_group_of(config.local, all);
    });
  });
  return {.shards = *shards, .step = step};
}

SumMemory sum_memory(const ParallelConfig& config, const DeckNode& source, const RankGroups& groups, const Graph& graph,
                     const ExecutionPlan& plan, DType dtype) {
  SumMemory memory{.on_devices = sums_on_devices(config, source, groups.shards.ranks.all), .on_hosts = {}};
  if (!memory.on_devices && !config.has_workers())
    memory.on_hosts = parallel_memory(config, groups.shards, graph, plan, dtype);
  return memory;
}

std::unique_ptr<ParallelStrategy> make_strategy(const ParallelConfig& config, StrategyRun run, const RankGroups& groups,
                                                SumMemory memory, const BatchPartition& partition,
                                                ParameterBuffer& parameters) {
  const auto& [shards, group] = groups;
  const Topology& topology = shards.ranks;
  GradientOrder& order = run.order;
  WorkersCourse course{.batch = run.batch, .syncs = order.syncs, .last = order.known_steps};
  switch (config.strategy(topology.all.size())) {
    case StrategyKind::free:
      return std::make_unique<FreeParallel>(config, topology.all, group, std::move(course), parameters);
    case StrategyKind::simulated_workers:
      return std::make_unique<SimulatedWorkers>(config, topology.all, std::move(order.pushes), std::move(course),
                                                parameters);
    case StrategyKind::simulated_gradients:
      return std::make_unique<SimulatedGradients>(config.asynchronous, topology.all, std::move(order.pushes),
                                                  sums_of_updates(config, topology, parameters), parameters);
    case StrategyKind::local:
      return std::make_unique<LocalParallel>(config.local, topology, group,
                                             local_parts(config, run, groups, std::move(memory), parameters), partition,
                                             run.steps, parameters);
    case StrategyKind::sharded:
      return std::make_unique<ShardedParallel>(config, shards, std::move(memory.on_hosts), parameters);
    case StrategyKind::data: break;
  }
  return std::make_unique<DataParallel>(config, run.measured, shards, std::move(memory.on_hosts.gradients),
                                        std::move(memory.on_devices), parameters, run.seed);
}

}  // namespace lockstep
