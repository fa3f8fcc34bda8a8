// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/model_memory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/collective/shard_place.hpp"
#include "parallel/asynchronous/parameter_store.hpp"
#include "parallel/asynchronous/simulated_gradients.hpp"
#include "parallel/compression/compression.hpp"
#include "parallel/groups/adasum_exchange.hpp"
#include "parallel/groups/streaming_sync.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"
#include "parallel/reducers/device_reducer.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "parameters/block_file.hpp"

namespace lockstep {

RankCount synchronous_ranks(const ParallelConfig& config, RankCount ranks) {
  if (!config.synchronizes_groups()) return ranks;
  const int group = static_cast<int>(config.local.group.value_or(ranks.all / ranks.nodes));
  return {group, std::max(1, group * ranks.nodes / ranks.all)};
}

int ranks_that_share(const ParallelConfig& config, RankCount ranks) {
  const int group = shard_group_size(config, ranks.all, ranks.nodes);
  const bool divides = config.sharding.divides() && group > 1;
  return divides && may_share_parameters(config) ? std::min(group, ranks.all / ranks.nodes) : 1;
}

std::int64_t largest_part(const ParallelConfig& config, const ParameterLayout& layout, RankCount ranks, bool shares) {
  const int group = shard_group_size(config, ranks.all, ranks.nodes);
  const int of_node = shares ? std::min(group, (ranks.all + ranks.nodes - 1) / ranks.nodes) : 1;
  const int nodes = (group + of_node - 1) / of_node,
            leaders = nodes == 1 ? 1 : leaders_of(config.sums.leaders, of_node);
  return most_owned(GradientBuckets(layout, config).trained, nodes, of_node, leaders);
}

namespace {

/// The model as ranks divide it.
struct DividedModel {
  DividedModel(const ParallelConfig& config, DType activations, const Graph& graph, const ExecutionPlan& plan,
               RankCount count)
      : parallel(config),
        ranks(count),
        layout(graph.layer_specs(), activations),
        dtype(activations),
        master(master_dtype(activations)),
        group(shard_group_size(parallel, count.all, count.nodes)),
        sharing(ranks_that_share(parallel, count)),
        elsewhere(parallel.offloads_parameters()),
        divides(parallel.sharding.divides() && (group > 1 || elsewhere)),
        owned(divides ? static_cast<double>(largest_part(parallel, layout, count, may_share_parameters(parallel))) : 0),
        windows(plan_windows(graph, layout, plan, parameter_division(parallel, group, divides && sharing == group))) {}

  double trained() const { return static_cast<double>(layout.trained_size()); }
  double master_bytes() const { return static_cast<double>(size_of(master)); }
  /// Bytes of the buffers that add up `shards` gradients in a fixed tree.
  double tree_bytes(std::int64_t shards, int of_ranks) const {
    return master_bytes() *
           static_cast<double>(layout.summed_size() *
                               DeterministicReducer::buffers(ParallelConfig::in_fixed_tree(shards), of_ranks));
  }

  const ParallelConfig& parallel;
  RankCount ranks;
  ParameterLayout layout;
  DType dtype;  ///< of the activations
  DType master;
  int group;       ///< ranks that divide the model among them
  int sharing;     ///< ranks that share one copy of the parameters
  bool elsewhere;  ///< the values that a rank owns are not in memory
  bool divides;
  double owned;  ///< trained parameters of the rank that owns most, if ranks divide the model; else 0
  UnshardPlan windows;
};

// Memory of a rank for the model: each function adds to the result of those before it.

/// Memory of parameters and gradients, by parallel.shard.
ModelMemory divided_memory(const DividedModel& model) {
  ModelMemory memory;
  const DType type = model.dtype;
  const ParameterDivision& division = model.windows.division;
  const double seen = static_cast<double>(model.windows.value_count(model.layout)) / model.sharing;
  memory.parameters = (seen + (division.values && !model.elsewhere ? model.owned : 0)) * model.master_bytes();
  memory.rounded = type == model.master ? 0 : seen * static_cast<double>(size_of(type));
  memory.gradients = model.master_bytes() * (static_cast<double>(model.windows.gradient_count(model.layout)) +
                                             (division.gradients ? model.owned : 0));
  return memory;
}

ModelMemory fixed_tree_memory(const DividedModel& model, ModelMemory memory) {
  const ParallelConfig& parallel = model.parallel;
  const int ranks = model.ranks.all;
  if (const std::int64_t pieces = parallel.asynchronous.recorded.members;
      pieces > 1 && parallel.has_stepping_workers()) {
    memory.gradients += model.tree_bytes(pieces, 1);
  } else if (pieces > 1) {
    const int together = SimulatedGradients::ranks_of_gradient(parallel.asynchronous, ranks);
    memory.gradients += model.tree_bytes(pieces, together);
    if (parallel.asynchronous.collect > 1)
      memory.gradients += model.tree_bytes(parallel.asynchronous.collect, ranks / together);
  } else if (parallel.tree_leaves() > 0) {
    memory.gradients *= static_cast<double>(1 + DeterministicReducer::buffers(parallel, ranks));
  }
  return memory;
}

double state_bytes(const DividedModel& model, const OptimizerConfig& optimizer) {
  double bytes = 0;
  for (const std::string& state : optimizer.state_names())
    for (const Parameter& part : optimizer.state_layout(state, model.layout.parameters()))
      bytes += static_cast<double>(part.range.count) * model.master_bytes();
  if (model.divides && model.trained() > 0) bytes *= model.owned / model.trained();
  const LocalConfig& local = model.parallel.local;
  if (model.parallel.synchronizes_groups() && local.has_momentum())
    bytes += (model.divides ? model.owned : model.trained()) * model.master_bytes();
  return bytes;
}

ModelMemory offloaded_memory(const DividedModel& model, std::size_t states, ModelMemory memory) {
  const auto count = std::llround(memory.states / (static_cast<double>(states) * model.master_bytes()));
  memory.elsewhere = model.elsewhere ? model.owned * model.master_bytes() : 0;
  memory.offloaded = memory.states + memory.elsewhere;
  memory.states = static_cast<double>(
      OffloadedStates::divide(model.parallel.offload.block_mb, model.master, states + (model.elsewhere ? 1 : 0), count)
          .bytes_in_memory());
  if (model.elsewhere && !memory_is_separate) memory.states += static_cast<double>(BlockFile::copied_bytes);
  return memory;
}

/// Free-running workers keep the parameters in slices. All of them do, or only the servers; then this rank is taken as
/// a server.
ModelMemory free_memory(const DividedModel& model, ModelMemory memory) {
  const ParallelConfig& parallel = model.parallel;
  const int ranks = model.ranks.all;
  const double keepers = parallel.servers > 0 ? static_cast<double>(parallel.servers) : ranks;
  const FreeRules rules = free_rules(parallel, ranks);
  const double slice = model.trained() / keepers;
  if (parallel.has_stepping_workers()) {
    memory.checkpoint += OuterOptimizer::numbers_each(parallel.local) * slice * model.master_bytes();
  } else {
    const double all = std::exchange(memory.states, memory.states / keepers);
    memory.checkpoint -= all - memory.states;
  }
  memory.gradients += model.master_bytes() * ParameterStore::numbers(parallel, rules, slice);
  if (const auto members = static_cast<int>(parallel.asynchronous.members(ranks)); members > 1)
    memory.gradients += model.tree_bytes(members, members);
  return memory;
}

/// Workers that step by themselves have states and versions of their own.
ModelMemory stepping_workers_memory(const DividedModel& model, ModelMemory memory) {
  const AsynchronousConfig& asynchronous = model.parallel.asynchronous;
  const std::int64_t workers = asynchronous.simulated_workers(),
                     of_rank = (workers + model.ranks.all - 1) / model.ranks.all, collect = asynchronous.collect;
  const std::int64_t copies = (workers > 1 ? of_rank : 0) + OuterOptimizer::numbers_each(model.parallel.local);
  const double of_workers = static_cast<double>(of_rank) * memory.states +
                            static_cast<double>(copies * model.layout.trained_size()) * model.master_bytes();
  // A checkpoint holds the workers' states, and not those of the optimizer, which are the current worker's.
  memory.checkpoint += of_workers - memory.states;
  memory.states += of_workers;
  // The newest version; the changes of an update's rounds, and their sum.
  memory.gradients += static_cast<double>((1 + collect + OrderedSum::buffers(collect)) * model.layout.trained_size()) *
                      model.master_bytes();
  return memory;
}

/// Gradients of a schedule need versions of the parameters.
ModelMemory simulated_memory(const DividedModel& model, ModelMemory memory) {
  const AsynchronousConfig& asynchronous = model.parallel.asynchronous;
  const std::int64_t workers = asynchronous.simulated_workers();
  const int copies = (workers > 1 ? 1 : 0) + (asynchronous.compensates() && asynchronous.adaptive ? 1 : 0);
  const double of_workers = copies * model.master_bytes() * static_cast<double>(workers * model.layout.trained_size());
  memory.states += of_workers;
  memory.checkpoint += of_workers;
  return memory;
}

/// Memory for synchronizations of replicas, or of workers that step by themselves.
ModelMemory local_memory(const DividedModel& model, ModelMemory memory) {
  const LocalConfig& local = model.parallel.local;
  const double trained = model.divides ? model.owned : model.trained(),
               replica = (trained + static_cast<double>(model.layout.statistics().count)) * model.master_bytes();
  memory.parameters += replica;
  if (model.divides) memory.gradients += replica;  // differences have memory of their own
  if (local.streams()) memory.checkpoint += replica;
  if (local.outer == LocalConfig::Outer::adasum)
    memory.gradients += static_cast<double>(AdasumExchange::longest_part(model.layout)) * model.master_bytes();
  if (local.streams())
    memory.gradients +=
        static_cast<double>(
            std::ranges::max(local_fragments(model.layout, local.fragments), {}, &ElementRange::count).count) *
        model.master_bytes();
  return memory;
}

}  // namespace

double wire_bytes(const ParallelConfig& config, const ParameterLayout& layout, RankCount ranks,
                  const DeviceFacts& devices) {
  const DType type = DeviceReducer::type_on_wire(config, layout.master());
  if (type == layout.master() || config.asynchronous.present || config.backup.present) return 0;
  if (!devices.all_have_devices || choose_device_sums(config, devices).path == DeviceSums::Path::on_hosts) return 0;
  // Sums over all ranks; over the groups of parallel.local; and over a node.
  const LocalConfig& local = config.local;
  const std::int64_t of_node = ranks.all / ranks.nodes, of_group = local.present ? local.group.value_or(of_node) : 1;
  const int sums = 1 + (of_group > 1 ? 1 : 0) + (local.present && local.nests() && of_node > of_group ? 1 : 0);
  return sums * static_cast<double>(layout.trained_size()) * static_cast<double>(size_of(type));
}

ModelMemory model_memory(const ParallelConfig& parallel, const OptimizerConfig& optimizer, DType dtype,
                         const Graph& graph, const ExecutionPlan& plan, RankCount ranks) {
  const DividedModel model(parallel, dtype, graph, plan, synchronous_ranks(parallel, ranks));
  ModelMemory memory = fixed_tree_memory(model, divided_memory(model));
  // Counted as for the first rank of a node whose ranks sum in shared memory.
  const CompressionMemory compression = compression_memory(parallel, model.layout, ranks.nodes);
  memory.gradients += compression.left_over + compression.buffers;
  memory.gradients += wire_bytes(parallel, model.layout, ranks, expected_devices(ranks.all));
  memory.states = state_bytes(model, optimizer);
  memory.checkpoint = compression.left_over;
  if (!model.elsewhere)
    memory.checkpoint += (model.windows.division.values ? model.owned : static_cast<double>(model.layout.size())) *
                         model.master_bytes();
  if (parallel.offload.present) memory = offloaded_memory(model, optimizer.state_names().size(), memory);
  else memory.checkpoint += memory.states;
  switch (parallel.strategy(model.ranks.all)) {
    case StrategyKind::free: memory = free_memory(model, memory); break;
    case StrategyKind::simulated_workers: memory = stepping_workers_memory(model, memory); break;
    case StrategyKind::simulated_gradients: memory = simulated_memory(model, memory); break;
    case StrategyKind::sharded:
    case StrategyKind::data: break;
  }
  return parallel.local.present ? local_memory(model, memory) : memory;
}

}  // namespace lockstep
