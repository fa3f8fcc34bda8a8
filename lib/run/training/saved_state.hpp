// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_numbers.hpp"
#include "checkpoint/number_stream.hpp"
#include "monitor/progress.hpp"
#include "monitor/selection.hpp"
#include "run/folder/run_paths.hpp"
#include "run/training/opened_deck.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {

/// The state of a run as its checkpoints hold it: texts (the deck, its provenance, the state of components), and the
/// numbers of all ranks (parameters, optimizer states). Rank 0 reads it from a file, and then shares it with all ranks.
class SavedState {
 public:
  /// All arguments outlive this. Collective.
  SavedState(const OpenedDeck& deck, const RunPaths& folder, RunState& state, Selection& selection, Progress& progress);

  /// The texts of a checkpoint, by name; on rank 0.
  std::map<std::string, std::string> texts();
  NumberStream& numbers() { return numbers_; }

  /// Restores the run from this checkpoint, which its reader has found sound. On rank 0; `share` must follow.
  void restore(const Checkpoint& checkpoint, const std::string& file);
  /// Begins the run with the parameters and the optimizer's state of run.branch_from. On rank 0; `share` must follow.
  void branch();
  /// Sends rank 0's state to all ranks, while no checkpoint is being written. Collective.
  void share();

 private:
  void describe(StateFields& fields);
  void share_numbers();

  const OpenedDeck& deck_;
  const RunPaths& folder_;
  Trainer& trainer_;
  RunState& state_;
  Selection& selection_;
  Progress& progress_;
  NumberStream numbers_;
  std::optional<CheckpointNumbers> restored_;  ///< on rank 0, until all ranks have their parts
};

}  // namespace lockstep
