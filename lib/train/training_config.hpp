// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch_partition.hpp"
#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "ops/provider.hpp"
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

  std::int64_t largest() const;  ///< global batch
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

  /// Gradients in fp16 vanish without.
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

/// The sections of a deck that say what a step is.
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
  std::vector<std::string> metrics;  ///< of evaluations, beside loss and accuracy; of the table of metrics

  /// Seconds of a step in some ways to divide the model that differ in nothing else, predicted on parallel.machine;
  /// none: nobody has asked, and empty: such steps are not predicted.
  struct ShardTime {
    ParallelConfig::Shard shard;
    double seconds;
  };
  std::optional<std::vector<ShardTime>> shard_times;

  DeckNode source;  ///< what it was read from; complaints name its lines

  DType dtype() const { return precision.dtype(); }
  /// Whether parameters whose states are elsewhere may change before all gradients are known: where nothing that these
  /// say can change what becomes of a step. On devices the host would have to wait to know that.
  bool updates_early() const {
    return !memory_is_separate && !optimizer.rule().needs_all_gradients() && optimizer.rule().clip_norm == 0 &&
           !precision.scales_loss() && !loss_watch.present && parallel.tree_leaves() == 0;
  }
  /// Whether groups of parallel.local count the steps that their optimizers' states come of. These may be fewer than
  /// the run's: without those that slow groups leave out, that a short batch leaves no examples for, whose gradients
  /// overflow, or before the last synchronization.
  bool groups_count_steps() const {
    return parallel.local.present && !parallel.local.asynchronous && optimizer.rule().counts_steps();
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

/// How batches are divided on so many ranks. Throws for shards that cannot be dealt out to them, by key.
BatchPartition batch_partition(const TrainingConfig& config, const Graph& graph, int ranks);

/// How the deck's network is planned for batches of up to `max_batch`. In training, large outputs whose loss allows it
/// are made in tiles.
Model::Options model_options(const TrainingConfig& config, std::int64_t max_batch, Purpose purpose);
/// The network so planned, not initialised.
Model make_model(const TrainingConfig& config, Graph graph, std::int64_t max_batch, Purpose purpose);

}  // namespace lockstep
