// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/make_strategy.hpp"

#include "parallel/asynchronous/free_parallel.hpp"
#include "parallel/asynchronous/simulated_gradients.hpp"
#include "parallel/asynchronous/simulated_workers.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/local/local_parallel.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/sharded/sharded_parallel.hpp"

namespace lockstep {
namespace {

/// Returns the all-reduce between devices if the deck sums gradients in their memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const TrainingConfig& config, const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively(
      [&] { with_positions(config.source, [&] { sums = choose_device_sums(config.parallel, facts); }); });
  return device_all_reduce(sums, comm);
}

/// Makes the parts of a strategy that does steps in groups of ranks and sums over all ranks between them. Collective.
LocalParallel::Parts local_parts(const TrainingConfig& config, const ShardGroups& all, const Topology& group,
                                 SumMemory memory, std::span<const AllReduceRow> measured,
                                 ParameterBuffer& parameters) {
  const bool on_device = memory.on_devices != nullptr;
  // Only sums over all ranks use the node's shared memory; those of a group, and of a node, go by messages.
  const auto sums_in = [&](const Topology& ranks) {
    return std::make_unique<DataParallel>(
        config.parallel, std::span<const AllReduceRow>(), ShardGroups(config.parallel, ranks), std::nullopt,
        on_device && ranks.all.size() > 1 ? sums_on_devices(config, ranks.all) : std::unique_ptr<DeviceAllReduce>(),
        parameters);
  };
  LocalParallel::Parts parts;
  if (config.groups_count_steps()) parts.own_steps = std::make_unique<OwnSteps>(group.all);
  parts.all = std::make_unique<DataParallel>(config.parallel, measured, all, std::move(memory.on_hosts.gradients),
                                             std::move(memory.on_devices), parameters);
  parts.group = sums_in(group);
  const Topology& ranks = all.ranks;
  if (config.parallel.local.nests() && ranks.node.size() > group.all.size()) parts.node = sums_in(ranks.of(ranks.node));
  if (config.parallel.local.streams())
    parts.fragments = std::make_unique<FragmentSums>(config.parallel, all, parameters.layout());
  if (config.parallel.local.outer == LocalConfig::Outer::adasum)
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

RankGroups rank_groups(const TrainingConfig& config, const Topology& all) {
  const ParallelConfig& parallel = config.parallel;
  std::optional<ShardGroups> shards;
  Topology step = all;
  all.all.run_collectively([&] {
    with_positions(config.source, [&] {
      shards.emplace(parallel, all);
      if (parallel.has_workers())
        step = all.of(all.all.split(all.all.rank() / parallel.ranks_of_worker(all.all.size())));
      else if (parallel.local.present) step = local_group_of(parallel.local, all);
    });
  });
  return {.shards = *shards, .step = step};
}

SumMemory sum_memory(const TrainingConfig& config, const RankGroups& groups, const Graph& graph,
                     const ExecutionPlan& plan) {
  SumMemory memory{.on_devices = sums_on_devices(config, groups.shards.ranks.all), .on_hosts = {}};
  if (!memory.on_devices && !config.parallel.has_workers())
    memory.on_hosts = parallel_memory(config.parallel, groups.shards, graph, plan, config.dtype());
  return memory;
}

std::unique_ptr<ParallelStrategy> make_strategy(const TrainingConfig& config, TrainingProblem& problem,
                                                const RankGroups& groups, SumMemory memory,
                                                const BatchPartition& partition, ParameterBuffer& parameters) {
  const auto& [shards, group] = groups;
  const Topology& topology = shards.ranks;
  const ParallelConfig& parallel = config.parallel;
  WorkersCourse course{.batch = config.batch.global, .syncs = problem.syncs, .last = problem.known_steps};
  switch (parallel.strategy(topology.all.size())) {
    case StrategyKind::free:
      return std::make_unique<FreeParallel>(parallel, topology.all, group, std::move(course), parameters);
    case StrategyKind::simulated_workers:
      return std::make_unique<SimulatedWorkers>(parallel, topology.all, std::move(problem.pushes), std::move(course),
                                                parameters);
    case StrategyKind::simulated_gradients:
      return std::make_unique<SimulatedGradients>(parallel.asynchronous, topology.all, std::move(problem.pushes),
                                                  sums_of_updates(parallel, topology, parameters), parameters);
    case StrategyKind::local:
      return std::make_unique<LocalParallel>(
          parallel.local, topology, group,
          local_parts(config, shards, group, std::move(memory), problem.measured, parameters), partition,
          problem.length.steps(), parameters);
    case StrategyKind::sharded:
      return std::make_unique<ShardedParallel>(parallel, shards, std::move(memory.on_hosts), parameters);
    case StrategyKind::data: break;
  }
  return std::make_unique<DataParallel>(parallel, problem.measured, shards, std::move(memory.on_hosts.gradients),
                                        std::move(memory.on_devices), parameters, problem.seed);
}

}  // namespace lockstep
