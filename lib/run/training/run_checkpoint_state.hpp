// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/checkpoint_transfer.hpp"
#include "monitor/progress.hpp"
#include "monitor/selection.hpp"
#include "run/folder/run_paths.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {

/// The state of a run as its checkpoints hold it: texts (the deck, its provenance, the state of components), and the
/// numbers of all ranks (parameters, optimizer states). Rank 0 reads it from a file, and then shares it with all ranks.
class RunCheckpointState {
 public:
  /// All arguments outlive this. Collective.
  RunCheckpointState(const PreparedRun& deck, const RunPaths& folder, RunState& state, Selection& selection,
                     Progress& progress);

  /// The texts of a checkpoint, by name; on rank 0.
  std::map<std::string, std::string> texts();
  CheckpointTransfer& numbers() { return numbers_; }

  /// Restores the run from this checkpoint, which its reader has found sound. On rank 0; `share` must follow.
  void restore(const Checkpoint& checkpoint, const std::string& file);
  /// Begins the run with the parameters and the optimizer's state of run.branch_from. On rank 0; `share` must follow.
  void branch();
  /// Sends rank 0's state to all ranks, while no checkpoint is being written. Collective.
  void share();

 private:
  void describe(StateFields& fields);
  void share_numbers();

  const PreparedRun& deck_;
  const RunPaths& folder_;
  Trainer& trainer_;
  RunState& state_;
  Selection& selection_;
  Progress& progress_;
  CheckpointTransfer numbers_;
  std::optional<CheckpointReader> restored_;  ///< on rank 0, until all ranks have their parts
};

}  // namespace lockstep
