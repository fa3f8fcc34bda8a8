// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/training_config.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "parallel/groups/streaming_sync.hpp"

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

namespace {

void check_free(const ParallelConfig& parallel, bool norms) {
  validate_key(!norms, parallel.backup.present ? "parallel.backup" : "parallel.asynchronous.schedule.free",
               "lets each rank read the parameters in its own time, so batch_norm's running statistics would depend on "
               "timing; use another norm{}",
               parallel.backup.present ? "" : ", or simulate a schedule");
}

void check_asynchronous(const TrainingConfig& config, bool norms, int ranks) {
  const AsynchronousConfig& asynchronous = config.parallel.asynchronous;
  const std::int64_t collect = asynchronous.collect, members = asynchronous.members(ranks);
  const bool steps = config.parallel.has_stepping_workers();
  validate_key(!steps || asynchronous.free || !norms, "parallel.local",
               "lets each worker step independently, so batch_norm would have no common running statistics; use "
               "another norm");
  validate_key(
      steps || asynchronous.free || collect % ranks == 0 || (ranks % collect == 0 && members % (ranks / collect) == 0),
      "parallel.asynchronous.collect",
      "{} per update{} cannot be divided evenly among {} ranks; use a multiple, or fewer ranks",
      counted(collect, "gradient"), members > 1 ? fmt::format(" (of {} pieces each)", members) : "", ranks);
  validate_key(!asynchronous.adaptive || ranks == 1, "parallel.asynchronous.adaptive",
               "{} ranks would each have the squares of only some of a worker's gradients; use one rank, or a "
               "constant lambda",
               ranks);
  validate_key(!norms || !config.parallel.sync_batch_norm, "parallel.sync_batch_norm",
               "asynchronous workers do not wait for each other, so batch_norm cannot use the examples of all of them; "
               "set it to false");
  const auto refuse = [&](const char* key, std::int64_t batch) {
    validate_key(batch >= asynchronous.collect, key,
                 "{} examples cannot be divided into {} gradients (parallel.asynchronous.collect); use more examples",
                 batch, asynchronous.collect);
  };
  refuse("batch.global", config.batch.global);
  for (const auto& [begin, batch] : config.batch.ramp) refuse("batch.ramp", static_cast<std::int64_t>(batch));
}

}  // namespace

void check_ranks(const TrainingConfig& config, int ranks) {
  const ParallelConfig& parallel = config.parallel;
  for (const auto& [begin, batch] : config.batch.ramp)
    validate_key(
        batch >= ranks, "batch.ramp",
        "{:.0f} examples, from {} on, are less than one per rank on {} ranks; use larger batches, or fewer ranks",
        batch, begin, ranks);
  const LocalConfig& local = parallel.local;
  if (local.present && local.group && !local.asynchronous)
    validate_key(ranks % *local.group == 0, "parallel.local.group",
                 "{} ranks cannot be divided into groups of {}; use a divisor of the ranks, or node", ranks,
                 *local.group);
  if (parallel.runs_freely()) {  // these throw if they are wrong
    static_cast<void>(parallel.workers(ranks));
    static_cast<void>(parallel.gradients_of_update(ranks));
  }
  validate_key(!parallel.deterministic.present || parallel.deterministic.shards % ranks == 0,
               "parallel.deterministic.shards",
               "{} shards cannot be divided evenly among {} ranks; use a multiple, or fewer ranks",
               parallel.deterministic.shards, ranks);
}

BatchPartition batch_partition(const TrainingConfig& config, const Graph& graph, int ranks) {
  check_ranks(config, ranks);
  const ParallelConfig& parallel = config.parallel;
  const bool norms = std::ranges::any_of(graph.nodes(),
                                         [](const GraphNode& node) { return node.layer->traits().needs_statistics; });
  const std::int64_t members = parallel.asynchronous.members(ranks);
  const std::int64_t shards = parallel.tree_leaves();
  const LocalConfig& local = parallel.local;
  if (local.present && local.streams() && !local.asynchronous)
    local_fragments(ParameterLayout(graph.layer_specs(), config.dtype()), local.fragments);  // throws if it is wrong
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
  if (parallel.runs_freely()) check_free(parallel, norms);
  if (parallel.asynchronous.present) check_asynchronous(config, norms, ranks);
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
