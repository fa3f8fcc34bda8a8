// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/make_strategy.hpp"

#include <optional>
#include <utility>

#include "parallel/data_parallel.hpp"
#include "parallel/sharded/sharded_parallel.hpp"

namespace lockstep {

std::unique_ptr<DeviceAllReduce> sums_on_devices(const ParallelConfig& config, const DeckNode& source,
                                                 const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively([&] { with_positions(source, [&] { sums = choose_device_sums(config, facts); }); });
  return device_all_reduce(sums, comm);
}

ShardGroups shard_groups(const ParallelConfig& config, const DeckNode& source, const Topology& all) {
  std::optional<ShardGroups> groups;
  all.all.run_collectively([&] { with_positions(source, [&] { groups.emplace(config, all); }); });
  return *groups;
}

SumMemory sum_memory(const ParallelConfig& config, const DeckNode& source, const ShardGroups& groups,
                     const Graph& graph, const ExecutionPlan& plan, DType dtype) {
  SumMemory memory{.on_devices = sums_on_devices(config, source, groups.ranks.all), .on_hosts = {}};
  if (!memory.on_devices) memory.on_hosts = parallel_memory(config, groups, graph, plan, dtype);
  return memory;
}

std::unique_ptr<ParallelStrategy> make_strategy(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                                std::uint64_t seed, const ShardGroups& groups, SumMemory memory,
                                                ParameterBuffer& parameters) {
  if (config.strategy(groups.ranks.all.size()) == StrategyKind::sharded)
    return std::make_unique<ShardedParallel>(config, groups, std::move(memory.on_hosts), parameters);
  return std::make_unique<DataParallel>(config, groups, parameters,
                                        ReplicaSums{.measured = measured,
                                                    .memory = std::move(memory.on_hosts.gradients),
                                                    .on_devices = std::move(memory.on_devices),
                                                    .seed = seed});
}

}  // namespace lockstep
