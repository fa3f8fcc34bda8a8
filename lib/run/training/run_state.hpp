// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/checkpoint_transfer.hpp"
#include "config/state_fields.hpp"
#include "data/batch/sampler.hpp"
#include "run/deck/run_config.hpp"
#include "run/folder/run_folder.hpp"
#include "run/monitor/progress.hpp"
#include "run/monitor/selection.hpp"
#include "run/training/prepared_run.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// What the curves show of a step and nothing else remembers.
struct CurveRecord {
  std::int64_t step = 0;  ///< from 1
  LoggedMetrics numbers;
  bool skipped = false;
  bool logged = false;  ///< its row was written before the checkpoint

  void describe_state(StateFields& fields);
};

/// What determines the order of the examples. A run that goes on keeps it.
struct ExampleOrder {
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

/// The position of a run in its data.
struct DataPosition {
  SamplerPosition position;
  std::int64_t rollbacks = 0;      ///< each changes the order of the examples after it
  std::int64_t went_back_to = -1;  ///< step of the checkpoint to which the last rollback went; -1: there was none

  /// The current epoch, or the one that has just ended; from 1 on.
  std::int64_t epoch() const { return position.epoch + (position.next == 0 ? 0 : 1); }
};

struct EvaluationState {
  std::int64_t evaluated_step = -1;  ///< step of the last evaluation; -1: none
  bool owes_evaluation = false;      ///< one fell due while ranks had no common parameters
};

struct CurveState {
  std::int64_t metrics_rows = 0;
  std::optional<CurveRecord> record;  ///< the last step that the curves show

  /// Whether the record of the last step has no row yet.
  bool has_unlogged(std::int64_t last_step) const { return record && record->step == last_step && !record->logged; }
};

/// What a run remembers besides its Trainer and its Selection. Random numbers are functions of the seed and the step
/// (core/random.hpp), and the learning rate is one of the step and the deck, so that neither is among it.
struct RunState {
  DataPosition data;
  EvaluationState evaluation;
  CurveState curves;

  void describe_state(StateFields& fields);
};

/// Restores the fields that `describe` names from the checkpoint's state. Throws bad_data if it is no checkpoint of a
/// run.
void restore_state(const Checkpoint& checkpoint, const std::string& file, const StateFields::Describe& describe);

/// Number of steps after which the checkpoint was written.
std::int64_t step_of(const Checkpoint& checkpoint, const std::string& file);
/// Number of steps that have made the checkpoint's optimizer state (StepCount::optimizer_steps).
std::int64_t optimizer_steps_of(const Checkpoint& checkpoint, const std::string& file);

/// The state of a run as its checkpoints hold it: texts (the deck, its provenance, the state of components), and the
/// numbers of all ranks (parameters, optimizer states). Rank 0 reads it from a file, and then shares it with all ranks.
class RunCheckpointState {
 public:
  /// All arguments outlive this. Collective.
  RunCheckpointState(const PreparedRun& prepared, const RunPaths& folder, RunState& state, Selection& selection,
                     Progress& progress);

  /// The texts of a checkpoint, by name; on rank 0.
  std::map<std::string, std::string> texts();
  CheckpointTransfer& transfer() { return transfer_; }

  /// Restores the run from this checkpoint, which its reader has found sound. On rank 0; `share` must follow.
  void restore(const Checkpoint& checkpoint, const std::string& file);
  /// Begins the run with the parameters and the optimizer's state of run.branch_from. On rank 0; `share` must follow.
  void branch();
  /// Sends rank 0's state to all ranks, while no checkpoint is being written. Collective.
  void share();

 private:
  void describe(StateFields& fields);
  void share_numbers();

  const PreparedRun& prepared_;
  const RunPaths& folder_;
  Trainer& trainer_;
  RunState& state_;
  Selection& selection_;
  Progress& progress_;
  CheckpointTransfer transfer_;
  std::optional<CheckpointReader> restored_;  ///< on rank 0, until all ranks have their parts
};

}  // namespace lockstep
