// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.hpp"
#include "checkpoint/checkpoint_numbers.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/neighbour_copies.hpp"
#include "parallel/replica_audit.hpp"
#include "run/deck/run_config.hpp"
#include "run/folder/run_folder.hpp"
#include "run/training/steps_done.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// The checkpoints of a run: when they are due, and what all ranks do for one. Replicas are compared before anything
/// that is good is replaced.
class RunCheckpoints {
 public:
  /// What the run puts into each, beside the trainer's arrays.
  struct Contents {
    std::function<std::map<std::string, std::string>()> texts;
    std::function<std::vector<std::int64_t>()> best;  ///< steps of those to keep, the best first
    std::function<void()> before_commit;              ///< see CheckpointEvents; runs in the writing thread as well
  };

  RunCheckpoints(const Communicator& comm, const RunConfig& config, const RunFolder& folder, Trainer& trainer,
                 Contents contents);

  /// Makes a checkpoint of what the nodes' memory holds, where that is newer than those of the folder, which is
  /// claimed: also of a run that keeps no more copies. Collective.
  void recover_from_neighbours(const RunFolder& folder);

  /// Ranks' numbers are to be those of this checkpoint, which open_checkpoint has found sound and which fits. Of rank
  /// 0.
  void restore_from(const std::string& file) { restored_.emplace(file); }
  /// Each rank gets its part, if rank 0 has called restore_from. Collective.
  void restore_numbers();

  /// Begins to write, on rank 0. `step`: that the run goes on from, whose checkpoint is there; -1: none.
  void open(std::int64_t step);
  /// Takes the memory that checkpoints before the last need, and forgets what the nodes' memory holds. Collective.
  void make_room(const RunFolder& folder);

  /// Whether nodes' memory is to have copies of this step.
  bool copies_due() const {
    return copies_ && trainer_.has_common_parameters() &&
           trainer_.steps() / options_.neighbours_every > copied_step_ / options_.neighbours_every;
  }
  /// By minutes, on rank 0.
  bool time_has_come() const;
  /// Whether one is, by the deck's intervals or because ranks have voted for it. Where ranks have no common parameters,
  /// it waits for these (`postpone`).
  bool is_due(const StepsDone& steps, const StepRequests& votes) const {
    return trainer_.has_common_parameters() && (is_owed_ || has_come(steps, votes));
  }
  /// What has become due with these steps stays so until it is written.
  void postpone(const StepsDone& steps, const StepRequests& votes) { is_owed_ |= has_come(steps, votes); }

  /// Begins to write one, behind the next steps. Not where parameters are not finite: the run ends then, or goes back.
  /// Collective.
  void write();
  /// Begins to write copies to the nodes' memory; as `write`.
  void write_copies();
  /// Returns when the checkpoint of this step is on disk. Collective.
  void finish();
  /// Says once, of a run that writes none before its end, that this is far away.
  void say_when_only_at_the_end(double seconds_left);
  /// Removes checkpoints that are not among the newest or best any more.
  void tidy() const;
  /// Throws SharedError where replicas differ, every parallel.audit_every steps, or as soon as they are to be alike.
  /// `steps`: that were done since the last call. Collective.
  void audit_if_due(std::int64_t steps);

  /// The one to go back to: the newest. If the run has been there before and has written none since, it is none of the
  /// good ones, and taken only if there is no other. On rank 0.
  std::optional<RunFolder::Found> find_good(const RunFolder& folder);
  /// The run goes back to that of this step: newer ones are of no use. On rank 0.
  void quarantine_others(std::int64_t step);
  /// The run is at an earlier step again, whose checkpoint is there. Collective.
  void go_back_to(std::int64_t step);
  /// Something has become known that the newest checkpoint does not hold.
  void outdate();
  void wait();

  /// Whether the newest checkpoint is of this step; on rank 0.
  bool is_saved() const { return writer_ && writer_->written_step() == trainer_.steps(); }
  /// Seconds that the next checkpoint may take, by what others have taken so far; on rank 0.
  double seconds_for_next() const;
  /// None but on rank 0.
  const std::optional<CheckpointWriter>& writer() const { return writer_; }

 private:
  bool has_come(const StepsDone& steps, const StepRequests& votes) const;
  CheckpointWriter::Contents contents();
  void begin_audits();
  void compare_replicas();
  bool is_good();

  const Communicator& comm_;
  CheckpointOptions options_;
  std::int64_t audit_every_;
  std::filesystem::path path_;
  Trainer& trainer_;
  StrategyState& state_;  ///< of the trainer's strategy
  Contents contents_;
  NumberStream numbers_;
  std::optional<CheckpointNumbers> restored_;  ///< of rank 0, until all ranks have them
  std::optional<CheckpointWriter> writer_;     ///< of rank 0
  BehindSteps giving_;                         ///< of other ranks
  std::optional<NeighbourCopies> copies_;      ///< where the deck wants them
  std::optional<ReplicaAudit> audit_;          ///< likewise
  std::int64_t audited_step_ = -1, copied_step_ = 0;
  bool is_audit_due_ = false, is_owed_ = false, has_said_when_ = false;
  bool had_copies_ = false;  ///< the run of this folder has kept some in nodes' memory, before this start
  std::vector<std::int64_t> best_in_newest_;  ///< as the newest checkpoint knows them
  std::string went_back_to_;                  ///< the checkpoint of the last rollback
  Timer since_last_;
  ExecSpace space_;
};

}  // namespace lockstep
