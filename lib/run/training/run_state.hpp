// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "config/state_fields.hpp"
#include "data/sampler.hpp"
#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// What the curves show of a step, and nothing else remembers.
struct StepRecord {
  std::int64_t step = 0;  ///< from 1
  StepNumbers numbers;
  bool skipped = false;
  bool logged = false;  ///< its row was written before the checkpoint

  void describe_state(StateFields& fields);
};

/// What decides on the order of the examples: a run that goes on keeps it.
struct ExampleOrder {
  std::int64_t version = example_order;
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t dataset_size = 0;
  bool shuffle = true;
  bool drop_last = false;
  std::string sampler{DataConfig::sampler_names[0]};

  ExampleOrder() = default;
  ExampleOrder(const RunConfig& config, std::int64_t dataset_size);
  void describe_state(StateFields& fields);
};

/// Where a run stands in its data.
struct DataPosition {
  SamplerPosition position;
  std::int64_t rollbacks = 0;      ///< each changes the order of the examples from there on
  std::int64_t went_back_to = -1;  ///< step of the last one's checkpoint; -1: there was none

  /// The running epoch, or the one that has just ended; from 1 on.
  std::int64_t epoch() const { return position.epoch + (position.next == 0 ? 0 : 1); }
};

struct EvaluationState {
  std::int64_t evaluated_step = -1;  ///< of the last evaluation
  bool owes_evaluation = false;      ///< one was due where ranks had no common parameters
};

struct CurveState {
  std::int64_t metrics_rows = 0;
  std::optional<StepRecord> record;  ///< of the last step that is for the curves

  /// The last step's record has no row yet.
  bool has_unlogged(std::int64_t last_step) const { return record && record->step == last_step && !record->logged; }
};

/// What a run remembers beside its Trainer and its Selection. Random numbers are functions of seed and step
/// (core/random.hpp) and the learning rate is one of the step and the deck, so these are the whole state.
struct RunState {
  DataPosition data;
  EvaluationState evaluation;
  CurveState curves;

  void describe_state(StateFields& fields);
};

/// Restores what `describe` names from the checkpoint's state. Throws bad_data when it is no checkpoint of a run.
void restore_state(const Checkpoint& checkpoint, const std::string& file, const StateFields::Describe& describe);

/// After how many steps it was written.
std::int64_t step_of(const Checkpoint& checkpoint, const std::string& file);
/// Steps that its optimizer's state comes of (StepCount::optimizer_steps).
std::int64_t optimizer_steps_of(const Checkpoint& checkpoint, const std::string& file);

}  // namespace lockstep
