// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/training_config.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {

void BatchOptions::describe(Fields& fields) {
  fields.meant_by_value("global");
  fields.integer("global", global, {1, 1e9},
                 "global batch size: examples per step, over all ranks together, whose shares differ by at most one");
  fields.points("ramp", ramp, {.pattern = span_pattern, .words = span_words}, {1, 1e9},
                "global batch sizes from later points of the run on, as [[10 epochs, 1024], [30 epochs, 4096]]; "
                "schedule.scale_rule says how the learning rate follows");
  fields.check(std::ranges::all_of(ramp, [](const auto& point) { return training_span_of(point.first).count > 0; }),
               "ramp", "has a point at 0, where batch.global applies; remove it");
  fields.check(std::ranges::all_of(ramp, [](const auto& point) { return std::floor(point.second) == point.second; }),
               "ramp", "has a batch that is not a whole number; give whole numbers");
  fields.integer("micro", micro, {1, 1e9},
                 "largest number of examples that a rank computes at once; a larger share is computed in micro-batches "
                 "whose gradients are summed (when not given: the whole share)");
}

std::int64_t BatchOptions::largest() const {
  std::int64_t most = global;
  for (const auto& [begin, batch] : ramp) most = std::max(most, static_cast<std::int64_t>(batch));
  return most;
}

std::vector<RunLength::Stage> BatchOptions::stages() const {
  std::vector<RunLength::Stage> stages{{{}, global}};
  for (const auto& [begin, batch] : ramp) stages.push_back({training_span_of(begin), static_cast<std::int64_t>(batch)});
  return stages;
}

void PrecisionOptions::describe(Fields& fields) {
  fields.meant_by_value("compute");
  fields.choice("compute", compute, precision_names,
                "type that the network computes with; with bf16 and fp16, only activations and their gradients are in "
                "16 bits, while parameters, their gradients, optimizer state and statistics stay in fp32");
  fields.optional_section(
      "loss_scale", has_loss_scale, [this](Fields& section) { loss_scale.describe(section); },
      "Multiplies the loss by a factor that adapts itself, so that small gradients do not vanish (dynamic loss "
      "scaling; always on with fp16)");
}

DType PrecisionOptions::dtype() const {
  static constexpr DType types[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  return types[static_cast<std::size_t>(compute)];
}

void DeviceOptions::describe(Fields& fields) {
  static constexpr std::string_view names[] = {"auto", "off"};
  fields.choice(
      "graph", graph, names,
      "auto: on a GPU, the kernels of a step are recorded as graphs and launched together; with several ranks, only "
      "the parts of a step that involve no other rank; off: kernels are launched one by one, with the same results");
}

void check_ranks(const TrainingConfig& config, int ranks) {
  const ParallelConfig& parallel = config.parallel;
  for (const auto& [begin, batch] : config.batch.ramp)
    validate_key(
        batch >= ranks, "batch.ramp",
        "{:.0f} examples, from {} on, are less than one per rank on {} ranks; use larger batches, or fewer ranks",
        batch, begin, ranks);
  parallel.check_ranks(ranks);
}

BatchPartition batch_partition(const TrainingConfig& config, const Graph& graph, int ranks) {
  check_ranks(config, ranks);
  const ParallelConfig& parallel = config.parallel;
  const bool norms = std::ranges::any_of(graph.nodes(),
                                         [](const GraphNode& node) { return node.layer->traits().needs_statistics; });
  const std::int64_t members = parallel.asynchronous.members(ranks);
  const std::int64_t shards = parallel.tree_leaves();
  BatchPartition partition{.ranks = ranks, .micro = config.batch.micro.value_or(config.batch.largest())};
  // Layers that look at all replicas see one share. If no layer looks beyond an example, the share need not be divided.
  if (norms && !parallel.sync_batch_norm) partition.shards = parallel.virtual_replicas;
  if (ranks > 1) partition.share_limit = parallel.share_limit();
  // With measured shares, other examples would have statistics in common: those of a rank, and those of all ranks'
  // micro-batches of one number.
  validate_key(!parallel.measures_shares() || !norms || parallel.deterministic.present || parallel.sync_batch_norm,
               "parallel.shares",
               "measured would change which examples a rank's batch_norm sees; use sync_batch_norm: true, or "
               "deterministic");
  validate_key(!parallel.measures_shares() || !norms || parallel.deterministic.present || !config.batch.micro,
               "parallel.shares",
               "measured would change which examples share a micro-batch, and so batch_norm's statistics; leave "
               "batch.micro out, or use deterministic");
  parallel.check_passes(ranks, norms);
  // Whatever the number of ranks, a rank has one part of a batch at a time, or a piece of one.
  if (parallel.runs_freely()) partition.ranks = parallel.parts_of_batch(ranks) * members;
  else if (parallel.has_stepping_workers()) {
    partition.ranks = parallel.parts_of_batch(ranks);
    partition.shards = members;
    partition.separate = members > 1;
  }
  if (shards == 0) return partition;
  validate_key(!parallel.deterministic.present || !norms || !parallel.sync_batch_norm, "parallel.sync_batch_norm",
               "a deterministic run computes each shard separately, and batch_norm must do so too; set it to false");
  partition.shards = shards / ranks;
  partition.separate = true;
  return partition;
}

Model::Options model_options(const TrainingConfig& config, std::int64_t max_batch, Purpose purpose) {
  // Bytes that the cache of a processor holds besides the weights; devices want larger products.
  constexpr std::size_t tile_bytes = runs_on_device ? 256u << 20 : 16u << 20;
  return {.dtype = config.dtype(),
          .providers = config.providers,
          .max_batch = max_batch,
          .purpose = purpose,
          .checkpointing = config.model.checkpointing,
          .tile_bytes = purpose == Purpose::training && config.loss.make()->is_of_rows() ? tile_bytes : 0,
          .windows = {},
          .memory = {}};
}

Model make_model(const TrainingConfig& config, Graph graph, std::int64_t max_batch, Purpose purpose) {
  return with_positions(config.source,
                        [&] { return Model(std::move(graph), model_options(config, max_batch, purpose)); });
}

}  // namespace lockstep
