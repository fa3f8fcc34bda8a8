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

/// The state of a run as its checkpoints hold it: texts (the deck, its provenance, what components remember), and the
/// numbers of all ranks (parameters, the optimizer's states). Rank 0 takes it from a file, and then it goes to all.
class SavedState {
 public:
  /// All outlive this. Collective.
  SavedState(const OpenedDeck& deck, const RunPaths& folder, RunState& state, Selection& selection,
             Progress& progress);

  /// What a checkpoint holds beside the numbers, by name; of rank 0.
  std::map<std::string, std::string> texts();
  NumberStream& numbers() { return numbers_; }

  /// The run goes on from this checkpoint, which its reader has found sound. On rank 0.
  void restore(const Checkpoint& checkpoint, const std::string& file);
  /// The run begins with what another run has come to (run.branch_from). On rank 0.
  void branch();
  /// What rank 0 has goes to all, while nothing of it is being written. Collective.
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
  std::optional<CheckpointNumbers> restored_;  ///< of rank 0, until all ranks have their parts
};

}  // namespace lockstep
