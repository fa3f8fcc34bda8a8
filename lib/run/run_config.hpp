// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "comm/parallel_config.hpp"
#include "data/data_config.hpp"
#include "monitor/selection.hpp"
#include "nn/loss.hpp"
#include "nn/model_config.hpp"
#include "ops/provider.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/loss_watch.hpp"

namespace lockstep {

/// The deck's `run` section.
struct RunOptions {
  std::string name = "run";
  std::string output_dir;  ///< empty: runs/<name>
  std::int64_t seed = 1;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  TargetOptions target;
  PatienceOptions patience;
  std::string resume = "auto";
  bool overwrite = false;
  std::int64_t log_every = 50;
  std::string evaluate_every = "1 epoch";    ///< see evaluation_interval
  std::string wall_time;                     ///< see duration_of; empty: no limit
  std::optional<std::int64_t> hang_timeout;  ///< seconds

  struct Interval {
    std::int64_t count = 0;  ///< 0: never
    bool in_steps = false;   ///< not epochs
  };
  Interval evaluation_interval() const;
  void describe(Fields& fields);
};

struct BatchOptions {
  std::int64_t global = 128;
  std::optional<std::int64_t> micro;

  void describe(Fields& fields);
};

struct CheckpointOptions {
  std::int64_t every_steps = 0;
  std::int64_t every_epochs = 0;
  double every_minutes = 0;
  std::int64_t keep = 2;
  KeepBestOptions keep_best;

  /// Whether there are any before the last one.
  bool regular() const { return every_steps > 0 || every_epochs > 0 || every_minutes > 0 || keep_best.present; }
  void describe(Fields& fields);
};

enum class Precision { fp32, bf16, fp16, fp64 };
inline constexpr std::string_view precision_names[] = {"fp32", "bf16", "fp16", "fp64"};

struct PrecisionOptions {
  Precision compute = Precision::fp32;
  bool has_loss_scale = false;
  LossScaleConfig loss_scale;

  /// Gradients in fp16 vanish without.
  bool scales_loss() const { return has_loss_scale || compute == Precision::fp16; }
  void describe(Fields& fields);
};

/// A whole deck.
struct RunConfig : Config {
  RunOptions run;
  DataConfig data;
  ModelConfig model;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  BatchOptions batch;
  PrecisionOptions precision;
  ParallelConfig parallel;
  ProvidersConfig providers;
  CheckpointOptions checkpoint;
  LossWatchConfig loss_watch;

  DeckNode source;  ///< what it was read from; complaints name its lines

  void describe(Fields& fields) override;
  DType dtype() const;  ///< of activations
  Selection::Options selection() const { return {run.target, run.patience, checkpoint.keep_best}; }
  std::string output_dir() const { return run.output_dir.empty() ? "runs/" + run.name : run.output_dir; }
};

/// Of a pass over so many training examples, and of the whole run, unless it reaches its target before.
std::int64_t steps_per_epoch(const RunConfig& config, std::int64_t examples);
std::int64_t total_steps(const RunConfig& config, std::int64_t examples);

/// Throws Error(bad_deck) for whatever the deck alone shows to be wrong: a DeckError, where it is one thing.
RunConfig read_run_config(DeckNode deck);
/// Of a deck that a run has left, in a checkpoint say: keys of earlier builds count under the names that they have now.
RunConfig read_stored_config(const std::string& text, const std::string& file);

}  // namespace lockstep
