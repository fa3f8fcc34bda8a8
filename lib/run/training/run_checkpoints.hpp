// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/neighbour_copies.hpp"
#include "monitor/progress.hpp"
#include "monitor/selection.hpp"
#include "run/folder/run_folder.hpp"
#include "run/training/opened_deck.hpp"
#include "run/training/saved_state.hpp"
#include "run/training/state_audit.hpp"

namespace lockstep {

/// The checkpoints of a run: on disk, and in the nodes' memory. What all ranks do for one, and to go back to one.
/// Before anything that is good is replaced, a StateAudit looks.
class RunCheckpoints {
 public:
  /// All outlive this; `progress`: whose rows checkpoints count on. Collective.
  RunCheckpoints(const OpenedDeck& deck, RunFolder& folder, SavedState& state, StateAudit& audit,
                 const Selection& selection, Progress& progress);

  /// Makes a checkpoint of what the nodes' memory holds, where that is newer than those of the folder, which is
  /// claimed: also of a run that keeps no more copies. `takes_up`: whatever run.resume says, as an earlier attempt of
  /// these processes has left them. Collective.
  void recover_from_neighbours(bool takes_up);
  /// Begins to write, on rank 0. `step`: that the run goes on from, whose checkpoint is there; -1: none.
  void open(std::int64_t step);
  /// Takes the memory that checkpoints before the last need, and forgets what the nodes' memory holds. Collective.
  void make_room();

  /// Begins to write one, after the next steps. Not where parameters are not finite: the run ends then, or goes back.
  /// Collective.
  void write();
  /// Begins to write copies to the nodes' memory; as `write`.
  void write_copies();
  /// Returns when the checkpoint of this step is on disk. Collective.
  void finish();
  /// Until nothing is being written.
  void wait();
  /// What checkpoints count on is on disk: curves, and the order of gradients. On rank 0. Throws io_error.
  void flush_files();
  /// Removes checkpoints that are not among the newest or best any more.
  void tidy() const;

  /// The one to go back to: the newest. If that is where the last rollback went, after step `went_back_to` (-1: there
  /// was none), it is none of the good ones, and taken only if there is no other. On rank 0, while nothing is being
  /// written.
  std::optional<RunFolder::Found> find_good(std::int64_t went_back_to) const {
    return folder_.newest_checkpoint(went_back_to < 0 ? "" : checkpoint_name(went_back_to));
  }
  /// The run goes back to that of this step: newer ones are of no use. On rank 0.
  void quarantine_others(std::int64_t step);
  /// The run is at an earlier step again, whose checkpoint is there. Collective.
  void go_back_to(std::int64_t step);
  /// Something has become known that the newest checkpoint does not hold.
  void outdate();

  /// Whether the newest checkpoint is of this step; on rank 0.
  bool is_saved() const { return writer_ && writer_->written_step() == trainer_.steps(); }
  /// Seconds that the next checkpoint may take, by what others have taken so far; of a rank that writes none, 0.
  double seconds_for_next() const;
  /// None but on rank 0.
  const std::optional<CheckpointWriter>& writer() const { return writer_; }

 private:
  CheckpointWriter::Contents contents();
  /// What is to be done before a checkpoint takes the place of others; rank 0's threads do it.
  std::function<void()> before_commit();
  /// Whether numbers are copied before the next step, and not while it computes its gradients.
  bool copies_at_once() const;

  Communicator comm_;
  CheckpointOptions options_;
  RunFolder& folder_;
  Trainer& trainer_;
  SavedState& state_;
  StateAudit& audit_;
  const Selection& selection_;
  Progress& progress_;
  NumberStream& numbers_;                   ///< of the state
  std::optional<CheckpointWriter> writer_;  ///< of rank 0
  BackgroundWork giving_;                   ///< of other ranks
  std::optional<NeighbourCopies> copies_;   ///< where the deck wants them
  bool had_copies_ = false;  ///< the run of this folder has kept some in nodes' memory, before this start
  std::vector<std::int64_t> best_in_newest_;  ///< as the newest checkpoint knows them
  ExecSpace space_;
};

}  // namespace lockstep
