// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/make_strategy.hpp"

#include <optional>
#include <utility>

#include "parallel/asynchronous/free_parallel.hpp"
#include "parallel/asynchronous/simulated_gradients.hpp"
#include "parallel/asynchronous/simulated_workers.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/sharded/sharded_parallel.hpp"

namespace lockstep {
namespace {

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

std::unique_ptr<DeviceAllReduce> sums_on_devices(const ParallelConfig& config, const DeckNode& source,
                                                 const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively([&] { with_positions(source, [&] { sums = choose_device_sums(config, facts); }); });
  return device_all_reduce(sums, comm);
}

RankGroups rank_groups(const ParallelConfig& config, const DeckNode& source, const Topology& all) {
  std::optional<ShardGroups> shards;
  Topology step = all;
  all.all.run_collectively([&] {
    with_positions(source, [&] {
      shards.emplace(config, all);
      if (config.has_workers()) step = all.of(all.all.split(all.all.rank() / config.ranks_of_worker(all.all.size())));
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
                                                SumMemory memory, ParameterBuffer& parameters) {
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
    case StrategyKind::sharded:
      return std::make_unique<ShardedParallel>(config, shards, std::move(memory.on_hosts), parameters);
    case StrategyKind::data: break;
  }
  return std::make_unique<DataParallel>(config, run.measured, shards, std::move(memory.on_hosts.gradients),
                                        std::move(memory.on_devices), parameters, run.seed);
}

}  // namespace lockstep
