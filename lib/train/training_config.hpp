// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch/batch_partition.hpp"
#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "ops/products/provider.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "parallel/config/parallel_config.hpp"
#include "train/loss_watch.hpp"

namespace lockstep {

/// The deck's `batch` section.
struct BatchOptions {
  std::int64_t global = 128;
  std::vector<std::pair<std::string, double>> ramp;  ///< (TrainingSpan, global batch from there on)
  std::optional<std::int64_t> micro;

  std::int64_t largest() const;  ///< largest global batch of the run
  std::vector<RunLength::Stage> stages() const;
  void describe(Fields& fields);
};

enum class Precision { fp32, bf16, fp16, fp64 };
inline constexpr std::string_view precision_names[] = {"fp32", "bf16", "fp16", "fp64"};

/// The deck's `precision` section.
struct PrecisionOptions {
  Precision compute = Precision::fp32;
  bool has_loss_scale = false;
  LossScaleConfig loss_scale;

  /// fp16 always scales the loss, because its gradients would vanish otherwise.
  bool scales_loss() const { return has_loss_scale || compute == Precision::fp16; }
  DType dtype() const;  ///< of activations
  void describe(Fields& fields);
};

/// The deck's `device` section.
struct DeviceOptions {
  enum class Graph { automatic, off };
  Graph graph = Graph::automatic;

  void describe(Fields& fields);
};

/// The sections of a deck that define a step.
struct TrainingConfig {
  ModelConfig model;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  BatchOptions batch;
  PrecisionOptions precision;
  ParallelConfig parallel;
  ProvidersConfig providers;
  DeviceOptions device;
  LossWatchConfig loss_watch;
  std::vector<std::string> metrics;  ///< of evaluations, besides loss and accuracy; names from the table of metrics

  /// Predicted seconds of a step on parallel.machine, for some ways to divide the model that differ in nothing else. No
  /// list: not asked for; an empty one: such steps cannot be predicted.
  struct ShardTime {
    Shard shard;
    double seconds;
  };
  std::optional<std::vector<ShardTime>> shard_times;

  DeckNode source;  ///< what this was read from; error messages name its lines

  DType dtype() const { return precision.dtype(); }
  /// Whether parameters whose states are offloaded may change before all gradients are known: only if nothing in the
  /// gradients can change the outcome of a step. On devices they may not, because the host would have to wait to know
  /// which are final.
  bool updates_early() const {
    return !memory_is_separate && !optimizer.rule().needs_all_gradients() && optimizer.rule().clip_norm == 0 &&
           !precision.scales_loss() && !loss_watch.present && parallel.tree_leaves() == 0;
  }
  StateOffload state_offload() const {
    using To = StateOffload::To;
    const ParallelConfig::Offload& offload = parallel.offload;
    return {!offload.present         ? To::nowhere
            : offload.is_to_memory() ? To::host_memory
                                     : To::file,
            offload.optimizer, offload.block_mb, parallel.offloads_parameters()};
  }
};

/// Throws KeyError if so many ranks cannot train by this deck, whatever its data and its network are.
void check_ranks(const TrainingConfig& config, int ranks);

/// Returns how batches are divided on so many ranks. Throws KeyError if parts or shards cannot be dealt out to them.
BatchPartition batch_partition(const TrainingConfig& config, const Graph& graph, int ranks);

/// Returns how the deck's network is planned for batches of up to `max_batch`. In training, large outputs are made in
/// tiles if the loss allows it.
Model::Options model_options(const TrainingConfig& config, std::int64_t max_batch, Purpose purpose);
/// Makes the deck's network, planned by model_options and not initialised.
Model make_model(const TrainingConfig& config, Graph graph, std::int64_t max_batch, Purpose purpose);

}  // namespace lockstep
