// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "data/sampler.hpp"
#include "monitor/selection.hpp"
#include "nn/model.hpp"
#include "optim/optimizer.hpp"
#include "run/run_config.hpp"
#include "train/evaluator.hpp"
#include "train/loss_watch.hpp"
#include "train/noise_scale.hpp"

namespace lockstep {

/// What the curves show of a step, and nothing else remembers.
struct StepRecord {
  std::int64_t step = 0;  ///< from 1
  Metrics metrics;
  double gradient_norm = 0;
  bool left_out = false;
  bool logged = false;  ///< its row was written before the checkpoint
};

/// What a checkpoint remembers beside arrays. Random numbers are functions of seed and step
/// (core/random.hpp) and the learning rate is one of the step and the deck, so these are their whole state.
struct RunState {
  std::int64_t step = 0;  ///< steps done
  SamplerPosition position;
  std::int64_t evaluated_step = -1;  ///< of the last evaluation
  std::int64_t metrics_rows = 0;
  Selection::State selection;
  bool scales_loss = false;  ///< loss_scaler is in use
  LossScaler::State loss_scaler;
  std::int64_t skipped_steps = 0;  ///< left out because gradients overflowed
  NoiseScale::State noise;
  LossWatch::State loss_watch;
  bool loss_was_nonfinite = false;   ///< of the last step, without loss_watch
  std::int64_t rollbacks = 0;        ///< each changes the order of the examples from there on
  std::optional<StepRecord> record;  ///< of the last step that is for the curves

  // What decides on the order of the examples.
  std::int64_t order = example_order;
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t dataset_size = 0;
  bool shuffle = true;
  bool drop_last = false;
};

/// The state of a run of this deck before its first step.
RunState first_state(const RunConfig& config, std::int64_t dataset_size);

/// JSON, and back; the latter throws std::exception when anything is missing.
std::string state_text(const RunState& state);
RunState parse_state(const std::string& text);

/// /model/<layer>/<parameter>, /optimizer/<state>/<layer>/<parameter> (of trained ones); text "state" and `texts`.
/// `memory`: where the numbers are copied to (checkpoint_bytes); empty: on hosts the checkpoint looks at the live ones,
/// and is to be written before the next step.
Checkpoint make_checkpoint(const ExecSpace& space, const RunState& state, std::map<std::string, std::string> texts,
                           const ParameterBuffer& parameters, const Optimizer& optimizer, std::span<std::byte> memory);
std::size_t checkpoint_bytes(const ParameterBuffer& parameters, const Optimizer& optimizer);

/// Throws bad_data when it is no checkpoint of a run.
RunState state_of(const Checkpoint& checkpoint, const std::string& file);

/// Throws bad_data unless the arrays below `prefix` ("/model") are those of the parameters, with their shapes, and no
/// others.
void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters);

/// Throws unless a run of this deck can go on from the checkpoint: KeyError for what would change the order of
/// the examples, bad_data for another network or optimizer.
void check_resume(const Checkpoint& checkpoint, const std::string& file, const RunConfig& config,
                  std::int64_t dataset_size, const std::vector<Parameter>& parameters);

/// Copies the arrays below /model, which must pass check_arrays, into parameters. Values of fp32 files go into
/// fp64 models and the reverse.
void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters);
/// Those of them that are there; the other parameters stay as they are. Names and shapes must fit.
void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters);
/// As restore_parameters, for /optimizer.
void restore_optimizer(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                       const ParameterBuffer& parameters, const Optimizer& optimizer);

}  // namespace lockstep
