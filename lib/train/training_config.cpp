// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/training_config.hpp"

#include <algorithm>

namespace lockstep {

void BatchOptions::describe(Fields& fields) {
  fields.integer("global", global, {1, 1e9}, "examples a step, of all ranks together; shares differ by at most one");
  fields.integer(
      "micro", micro, {1, 1e9},
      "most examples that a rank computes at once; a larger share is computed in micro-batches whose gradients are summed "
      "(the share, when not given)");
}

void PrecisionOptions::describe(Fields& fields) {
  fields.choice("compute", compute, precision_names,
                "numbers that the network computes with; beside 16 bits, parameters and statistics are fp32");
  fields.optional_section(
      "loss_scale", has_loss_scale, [this](Fields& section) { loss_scale.describe(section); },
      "multiplies the loss, so that small gradients do not vanish, by a factor that adapts itself (on for fp16 in "
      "any case)");
}

DType PrecisionOptions::dtype() const {
  static constexpr DType types[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  return types[static_cast<std::size_t>(compute)];
}

double learning_rate(const OptimizerConfig& optimizer, const ScheduleConfig& schedule, std::int64_t applied,
                     std::int64_t total_steps) {
  return optimizer.learning_rate() * schedule.factor(applied, total_steps);
}

BatchPartition batch_partition(const TrainingConfig& config, const Graph& graph, int ranks) {
  const ParallelConfig& parallel = config.parallel;
  const bool norms = std::ranges::any_of(graph.nodes(),
                                         [](const GraphNode& node) { return node.layer->traits().needs_statistics; });
  const std::int64_t shards = parallel.deterministic.shards;
  BatchPartition partition{.ranks = ranks, .micro = config.batch.micro.value_or(config.batch.global)};
  // What looks at all replicas sees one share. Where nothing looks beyond an example, it need not be divided.
  if (norms && !parallel.sync_batch_norm) partition.shards = parallel.virtual_replicas;
  if (!parallel.deterministic.present) return partition;
  validate_key(shards % ranks == 0, "parallel.deterministic.shards",
               "{} shards cannot be dealt out evenly to {} ranks; use a multiple, or fewer ranks", shards, ranks);
  validate_key(!norms || !parallel.sync_batch_norm, "parallel.sync_batch_norm",
               "a deterministic run computes each shard by itself, and so must batch_norm; set it to false");
  partition.shards = shards / ranks;
  partition.separate = true;
  return partition;
}

Model make_model(const TrainingConfig& config, Graph graph, std::int64_t max_batch, Purpose purpose,
                 const Buffer& gradient_memory) {
  return with_positions(config.source, [&] {
    return Model(std::move(graph), {.dtype = config.dtype(),
                                    .providers = config.providers,
                                    .max_batch = max_batch,
                                    .purpose = purpose,
                                    .checkpointing = config.model.checkpointing,
                                    .gradient_memory = gradient_memory});
  });
}

}  // namespace lockstep
