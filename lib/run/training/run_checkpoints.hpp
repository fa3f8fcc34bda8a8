// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "run/folder/run_folder.hpp"
#include "run/monitor/progress.hpp"
#include "run/monitor/selection.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_state.hpp"
#include "run/training/state_audit.hpp"

namespace lockstep {

/// Writes a run's checkpoints, and takes the run back to one; all ranks take part. A StateAudit checks the state before
/// a checkpoint of it replaces a good one.
class RunCheckpoints {
 public:
  /// All arguments outlive this. `progress`: its rows are flushed to disk with each checkpoint. Collective.
  RunCheckpoints(const PreparedRun& prepared, RunFolder& folder, RunCheckpointState& state, StateAudit& audit,
                 Selection& selection, Progress& progress);

  /// Makes rank 0 ready to write. `step`: the step from which the run goes on, if its checkpoint is in the folder; -1:
  /// none.
  void open(std::int64_t step);
  /// Allocates the memory that checkpoints before the last one need. Collective.
  void make_room();

  /// Begins to write a checkpoint, during the next steps. Writes none if parameters are not finite, which ends the run
  /// or sends it back. Collective.
  void write();
  /// Returns when the checkpoint of the current step is on disk. Collective.
  void finish();
  /// Returns when nothing is being written, for a run that does not go on. Collective.
  void end_without_checkpoint();
  /// Flushes the curves, and removes checkpoints that are no longer needed, at the end of a run. Collective.
  void complete();
  /// Waits until nothing is being written.
  void wait();
  /// Flushes to disk what checkpoints count on: the curves, and the order of gradients. On rank 0. Throws io_error.
  void flush_files();
  /// Removes checkpoints that are no longer among the newest or the best.
  void tidy() const;

  /// Returns the checkpoint to go back to: the newest one. The checkpoint of step `went_back_to`, to which the last
  /// rollback went (-1: there was none), counts as bad and is taken only if there is no other. On rank 0, while nothing
  /// is being written.
  std::optional<RunFolder::Found> find_good(std::int64_t went_back_to) const {
    return folder_.newest_checkpoint(went_back_to < 0 ? "" : checkpoint_name(went_back_to));
  }
  /// Sets aside the checkpoints of steps after `step`, to which the run goes back. On rank 0.
  void quarantine_others(std::int64_t step);
  /// Notes that the run is at an earlier step again, whose checkpoint is on disk. Collective.
  void go_back_to(std::int64_t step);
  /// Forgets a best evaluation whose checkpoint could not be written, so that a later one can take its place.
  /// Collective.
  void forget_unwritten_best();
  /// Notes that something has become known that the newest checkpoint does not hold.
  void mark_out_of_date();

  /// Whether the newest checkpoint is of the current step. On rank 0; elsewhere false.
  bool is_saved() const { return writer_ && writer_->written_step() == trainer_.steps(); }
  /// Seconds that the next checkpoint may take, by the longest so far or by its size; 0 on ranks that write none.
  double seconds_for_next() const;
  /// None on other ranks than rank 0.
  const std::optional<CheckpointWriter>& writer() const { return writer_; }

 private:
  /// Warns if the disk has no room for the checkpoints that stay, and for one more.
  void warn_of_full_disk() const;
  CheckpointWriter::Contents contents();

  Communicator comm_;
  CheckpointOptions options_;
  RunFolder& folder_;
  Trainer& trainer_;
  RunCheckpointState& state_;
  StateAudit& audit_;
  Selection& selection_;
  Progress& progress_;
  RunTrainer& run_trainer_;
  CheckpointTransfer& transfer_;              ///< state_'s
  std::optional<CheckpointWriter> writer_;    ///< on rank 0
  BackgroundWork serving_;                    ///< sends this rank's numbers to rank 0; on other ranks
  std::vector<std::int64_t> best_in_newest_;  ///< best steps, as the newest checkpoint records them
  ExecSpace space_;
};

}  // namespace lockstep
