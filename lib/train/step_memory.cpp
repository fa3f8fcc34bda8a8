// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"
#include "parallel/asynchronous/ordered_sum.hpp"
#include "parallel/asynchronous/parameter_store.hpp"
#include "parallel/asynchronous/played_gradients.hpp"
#include "parallel/deterministic_reducer.hpp"
#include "parallel/local/adasum_exchange.hpp"
#include "parallel/local/fragment_sums.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {

int ranks_that_share(const ParallelConfig& config, RankCount ranks) {
  const int group = shard_group_size(config, ranks.all, ranks.nodes);
  const bool divides = config.shard != ParallelConfig::Shard::none && group > 1;
  return divides && may_share_parameters(config) ? std::min(group, ranks.all / ranks.nodes) : 1;
}

double memory_with(ParallelConfig::Shard shard, TrainingConfig config, const Graph& graph, const StepMemory& memory,
                   RankCount ranks) {
  config.parallel.take(shard);
  return memory.total() - memory.model() + model_memory(config, graph, memory.plan, ranks).model();
}

ModelMemory model_memory(const TrainingConfig& config, const Graph& graph, const StepPlan& plan, RankCount ranks) {
  ModelMemory memory;
  const DType type = config.dtype(), master = master_dtype(type);
  const ParameterLayout layout(graph, type);
  const ParallelConfig& parallel = config.parallel;
  const int group = shard_group_size(parallel, ranks.all, ranks.nodes);
  const bool elsewhere = parallel.offloads_parameters();
  const bool divides = parallel.shard != ParallelConfig::Shard::none && (group > 1 || elsewhere);
  const int sharing = ranks_that_share(parallel, ranks);
  const ParameterDivision division = parameter_division(parallel, group, divides && sharing == group);
  const ParameterWindows windows = plan_windows(graph, layout, plan, division);
  const auto master_bytes = static_cast<double>(size_of(master));
  const double owned = divides ? static_cast<double>(layout.trained_size()) / group : 0;
  const double seen = static_cast<double>(windows.value_count(layout)) / sharing;
  memory.parameters = (seen + (windows.division.values && !elsewhere ? owned : 0)) * master_bytes;
  memory.rounded = type == master ? 0 : seen * static_cast<double>(size_of(type));
  memory.gradients = master_bytes *
                     (static_cast<double>(windows.gradient_count(layout)) + (windows.division.gradients ? owned : 0));
  const auto tree_bytes = [&](std::int64_t shards, int of_ranks) {
    return master_bytes *
           static_cast<double>(layout.summed_size() *
                               DeterministicReducer::buffers(ParallelConfig::in_fixed_tree(shards), of_ranks));
  };
  const bool workers_step = parallel.has_stepping_workers();
  if (const std::int64_t pieces = parallel.asynchronous.recorded_members; pieces > 1 && workers_step) {
    memory.gradients += tree_bytes(pieces, 1);
  } else if (pieces > 1) {
    const int together = PlayedGradients::ranks_of_gradient(parallel.asynchronous, ranks.all);
    memory.gradients += tree_bytes(pieces, together);
    if (parallel.asynchronous.collect > 1)
      memory.gradients += tree_bytes(parallel.asynchronous.collect, ranks.all / together);
  } else if (parallel.separate_shards() > 0) {
    memory.gradients *= static_cast<double>(1 + DeterministicReducer::buffers(parallel, ranks.all));
  }
  double left_over = 0;  // of compressed sums, on the first rank of a node
  if (ranks.all > 1)
    left_over = (parallel.compress.keeps_errors() ? 1 : 0) + (parallel.compress.corrects_momentum() ? 1 : 0);
  left_over *= static_cast<double>(layout.trained_size()) * master_bytes;
  memory.gradients += left_over;
  for (const std::string& state : config.optimizer.state_names())
    for (const Parameter& part : config.optimizer.state_layout(state, layout.parameters()))
      memory.states += static_cast<double>(part.range.count) * master_bytes;
  if (divides) memory.states /= group;
  const LocalConfig& local = parallel.local;
  if (local.present && !workers_step && local.has_momentum())
    memory.states += static_cast<double>(layout.trained_size()) * master_bytes;
  memory.checkpoint = left_over;
  if (!elsewhere)
    memory.checkpoint += (windows.division.values ? owned : static_cast<double>(layout.size())) * master_bytes;
  if (parallel.offload.present) {
    const std::size_t states = config.optimizer.state_names().size();
    const auto count = static_cast<std::int64_t>(memory.states / (static_cast<double>(states) * master_bytes));
    memory.elsewhere = elsewhere ? owned * master_bytes : 0;
    memory.offloaded = memory.states + memory.elsewhere;
    memory.states = static_cast<double>(
        OffloadedStates::divide(parallel.offload.block_mb, master, states + (elsewhere ? 1 : 0), count)
            .bytes_in_memory());
  } else {
    memory.checkpoint += memory.states;
  }
  if (parallel.runs_freely()) {
    // Of servers, if there are any: workers have none of this.
    const double keepers = parallel.servers > 0 ? static_cast<double>(parallel.servers) : ranks.all;
    if (!workers_step) memory.states /= keepers;
    memory.gradients += master_bytes * ParameterStore::numbers(parallel, free_rules(parallel, ranks.all),
                                                               static_cast<double>(layout.trained_size()) / keepers);
    if (const auto members = static_cast<int>(parallel.asynchronous.members(ranks.all)); members > 1)
      memory.gradients += tree_bytes(members, members);
  } else if (workers_step) {
    // A replay's file alone says how many workers there are.
    const std::int64_t workers = parallel.asynchronous.simulation.ranks,
                       of_rank = (workers + ranks.all - 1) / ranks.all, collect = parallel.asynchronous.collect;
    const std::int64_t copies = (workers > 1 ? of_rank : 0) + OuterOptimizer::numbers_each(local, workers);
    memory.states += static_cast<double>(of_rank) * memory.states +
                     static_cast<double>(copies * layout.trained_size()) * master_bytes;
    // The newest version; what rounds of an update have changed, and its sum.
    memory.gradients += static_cast<double>((1 + collect + OrderedSum::buffers(collect)) * layout.trained_size()) *
                        master_bytes;
  } else if (const AsynchronousConfig& asynchronous = parallel.asynchronous; asynchronous.present) {
    // Of a replay, the file alone says how many workers there are.
    const int copies = (asynchronous.simulation.ranks > 1 ? 1 : 0) +
                       (asynchronous.compensates() && asynchronous.adaptive ? 1 : 0);
    const double of_workers = copies * master_bytes *
                              static_cast<double>(asynchronous.simulation.ranks * layout.trained_size());
    memory.states += of_workers;
    memory.checkpoint += of_workers;
  }
  if (local.present) memory.parameters += static_cast<double>(layout.summed_size()) * master_bytes;
  if (local.present && local.outer == LocalConfig::Outer::adasum)
    memory.gradients += static_cast<double>(AdasumExchange::longest_part(layout)) * master_bytes;
  if (local.present && local.streams())
    memory.gradients +=
        static_cast<double>(
            std::ranges::max(local_fragments(layout, local.fragments), {}, &ParameterRange::count).count) *
        master_bytes;
  return memory;
}

StepMemory step_memory(const TrainingConfig& config, Graph& graph, const Dataset& train, RankCount ranks) {
  const std::int64_t global = std::min(config.batch.largest(), train.size());
  const BatchPartition partition = batch_partition(config, graph, ranks.all);
  const std::int64_t share = partition.room(global), micro_batch = partition.largest_micro_batch(global);
  StepMemory memory;
  memory.plan = plan_model(graph, model_options(config, micro_batch, Purpose::training));
  static_cast<ModelMemory&>(memory) = model_memory(config, graph, memory.plan, ranks);
  const ExampleFormat& format = train.format();
  memory.batches = static_cast<double>(micro_batch * graph.input_shape().count()) *
                       static_cast<double>(size_of(config.dtype())) +
                   static_cast<double>(share) * 3.0 * static_cast<double>(format.input_bytes() + format.target_bytes());
  memory.activations = static_cast<double>(memory.plan.bytes);
  memory.workspace = static_cast<double>(prepare_layers(graph, memory.plan, micro_batch));
  return memory;
}

void check_memory(const TrainingConfig& config, const Graph& graph, const StepMemory& memory, RankCount ranks) {
  const double limit = 1e9 * config.parallel.memory_gb;
  if (limit == 0 || memory.total() <= limit) return;
  std::string others;
  if (config.optimizer.divides() && ranks.all > 1)
    for (std::size_t shard = 0; shard < std::size(shard_names) && others.empty(); ++shard)
      if (const double bytes = memory_with(static_cast<ParallelConfig::Shard>(shard), config, graph, memory, ranks);
          bytes <= limit)
        others = fmt::format("shard: {} needs {}, ", shard_names[shard], bytes_text(bytes));
  validate_key(false, "parallel.memory_gb",
               "a step needs {} on each of {} rank{} (as its plan says), and {} are allowed; {}",
               bytes_text(memory.total()), ranks.all, ranks.all == 1 ? "" : "s", bytes_text(limit),
               others.empty() ? "take more ranks, a smaller batch.micro, or model.activation_checkpointing"
                              : others + "and smaller pieces (batch.micro, parallel.unit_mb) need less");
}

std::string memory_by_shard(const TrainingConfig& config, const Graph& graph, const StepMemory& memory,
                            RankCount ranks) {
  std::vector<std::string> all;
  for (std::size_t shard = 0; shard < std::size(shard_names); ++shard)
    all.push_back(
        fmt::format("{} {}", shard_names[shard],
                    bytes_text(memory_with(static_cast<ParallelConfig::Shard>(shard), config, graph, memory, ranks))));
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace lockstep
