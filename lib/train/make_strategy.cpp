// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/make_strategy.hpp"

#include "comm/choose_device_sums.hpp"
#include "parallel/asynchronous/asynchronous_parallel.hpp"
#include "parallel/asynchronous/free_parallel.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/local/local_parallel.hpp"
#include "parallel/sharded/sharded_parallel.hpp"

namespace lockstep {
namespace {

/// The parts of a strategy that does steps in groups of ranks, and sums over all between them. Collective.
LocalParallel::Parts local_parts(const TrainingConfig& config, const ShardGroups& all, const Topology& group,
                                 std::optional<NodeMemory> memory, std::unique_ptr<DeviceAllReduce> on_devices,
                                 std::span<const AllReduceRow> measured, ParameterBuffer& parameters) {
  // The node's memory is that of sums over all: those of groups go by messages.
  ParallelConfig by_messages = config.parallel;
  if (by_messages.all_reduce && by_messages.all_reduce->in_node_memory) by_messages.all_reduce = nullptr;
  const bool on_device = on_devices != nullptr && group.all.size() > 1;
  LocalParallel::Parts parts;
  parts.all = std::make_unique<DataParallel>(config.parallel, measured, all, std::move(memory), std::move(on_devices),
                                             parameters);
  parts.group = std::make_unique<DataParallel>(
      by_messages, std::span<const AllReduceRow>(), ShardGroups(by_messages, group), std::nullopt,
      on_device ? sums_on_devices(config, group.all) : std::unique_ptr<DeviceAllReduce>(), parameters);
  if (config.parallel.local.streams())
    parts.fragments = std::make_unique<FragmentSums>(config.parallel, all, parameters.layout());
  return parts;
}

}  // namespace

std::unique_ptr<DeviceAllReduce> sums_on_devices(const TrainingConfig& config, const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively(
      [&] { with_positions(config.source, [&] { sums = choose_device_sums(config.parallel, facts); }); });
  return device_all_reduce(sums, comm);
}

std::unique_ptr<ParallelStrategy> make_strategy(const TrainingConfig& config, TrainingProblem& problem,
                                                const Topology& topology, const Topology& group,
                                                const ShardGroups& groups, ParallelMemory memory,
                                                std::unique_ptr<DeviceAllReduce> on_devices,
                                                const BatchPartition& partition, ParameterBuffer& parameters) {
  const LocalConfig& local = config.parallel.local;
  const AsynchronousConfig& asynchronous = config.parallel.asynchronous;
  if (asynchronous.free)
    return std::make_unique<FreeParallel>(
        asynchronous, topology.all,
        FreeParallel::Course{.batch = config.batch.global, .meets = problem.meets, .last = problem.length.steps()},
        parameters);
  if (local.present)
    return std::make_unique<LocalParallel>(local, topology, group,
                                           local_parts(config, groups, group, std::move(memory.gradients),
                                                       std::move(on_devices), problem.measured, parameters),
                                           partition, problem.length.steps(), parameters);
  if (config.parallel.shard != ParallelConfig::Shard::none && topology.all.size() > 1)
    return std::make_unique<ShardedParallel>(config.parallel, groups, std::move(memory), parameters);
  auto whole = std::make_unique<DataParallel>(config.parallel, problem.measured, groups, std::move(memory.gradients),
                                              std::move(on_devices), parameters,
                                              CompressionBasis{problem.seed, config.optimizer.gradient_momentum()});
  if (!asynchronous.present) return whole;
  return std::make_unique<AsynchronousParallel>(asynchronous, topology.all, std::move(problem.pushes), std::move(whole),
                                                parameters);
}

}  // namespace lockstep
