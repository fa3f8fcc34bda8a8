// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/memory_estimate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "data/batch/data_loader.hpp"
#include "train/evaluator.hpp"

namespace lockstep {
namespace {

/// Returns the bytes that a step needs with each way to divide the model that the deck's other keys, and the number of
/// ranks, allow.
std::vector<std::pair<std::string_view, double>> needs_by_shard(const TrainingConfig& config, const Graph& graph,
                                                                const MemoryEstimate& memory, RankCount ranks) {
  std::vector<std::pair<std::string_view, double>> needs;
  const std::optional<std::int64_t> group = config.parallel.sharding.shard_group.number;
  const int together = synchronous_ranks(config.parallel, ranks).all;
  for (std::size_t way = 0; way < std::size(shard_names); ++way)
    if (const auto shard = static_cast<Shard>(way);
        config.parallel.allows(shard) && (shard == Shard::none || together % group.value_or(1) == 0))
      needs.emplace_back(shard_names[way], memory_with(shard, config, graph, memory, ranks));
  return needs;
}

}  // namespace

double memory_with(Shard shard, TrainingConfig config, const Graph& graph, const MemoryEstimate& memory,
                   RankCount ranks) {
  config.parallel.sharding.take(shard);
  return memory.total() - memory.model() + model_memory(config, graph, memory.plan, ranks).model();
}

MemoryEstimate memory_estimate(const TrainingConfig& config, Graph& graph, const Dataset& train, RankCount ranks) {
  const std::int64_t global = std::min(config.batch.largest(), train.size());
  const BatchPartition partition = batch_partition(config, graph, ranks.all);
  const std::int64_t share = partition.room(global), micro_batch = partition.largest_micro_batch(global);
  MemoryEstimate memory;
  memory.plan = plan_model(graph, model_options(config, micro_batch, Purpose::training));
  static_cast<ModelMemory&>(memory) = model_memory(config, graph, memory.plan, ranks);
  const ExampleFormat& format = train.format();
  memory.batches = static_cast<double>(micro_batch * graph.input_shape().count()) *
                       static_cast<double>(size_of(config.dtype())) +
                   static_cast<double>(share) * DataLoader::ahead *
                       static_cast<double>(format.input_bytes() + format.target_bytes());
  memory.activations = static_cast<double>(memory.plan.bytes);
  memory.workspace = static_cast<double>(prepare_layers(graph, memory.plan, micro_batch));
  memory.workspace += static_cast<double>(MetricSums::bytes_of(config.metrics, graph.output_shape()));
  return memory;
}

void check_memory(const TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory, RankCount ranks) {
  const double limit = 1e9 * config.parallel.sharding.memory_gb;
  if (limit == 0 || memory.total() <= limit) return;
  std::string others;
  if (config.optimizer.rule().divides() && ranks.all > 1)
    for (const auto& [shard, bytes] : needs_by_shard(config, graph, memory, ranks))
      if (bytes <= limit && others.empty()) others = fmt::format("shard: {} needs {}, ", shard, bytes_text(bytes));
  validate_key(false, "parallel.memory_gb",
               "a step needs {} on each of {} (by its memory plan), but only {} is allowed; {}",
               bytes_text(memory.total()), counted(ranks.all, "rank"), bytes_text(limit),
               others.empty() ? "use more ranks, a smaller batch.micro, or model.activation_checkpointing"
                              : others + "and smaller pieces (batch.micro, parallel.unit_mb) need less");
}

std::string memory_by_shard(const TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory,
                            RankCount ranks) {
  std::vector<std::string> all;
  for (const auto& [shard, bytes] : needs_by_shard(config, graph, memory, ranks))
    all.push_back(fmt::format("{} {}", shard, bytes_text(bytes)));
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace lockstep
