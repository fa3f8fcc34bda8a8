// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run does before its first step; the rest is in training_run.cpp.
#include <filesystem>
#include <optional>

#include "core/host_memory.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/resume.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {

/// Rank 0 alone reads and writes the folder; then all ranks get the state from which the run goes on.
TrainingRun::TrainingRun(const RunConfig& config, const Communicator& comm, RunOwner* owner, EarlierAttempts* earlier)
    : comm_(comm),
      earlier_(earlier),
      watchdog_(owner ? owner->watchdog() : nullptr, comm, config.run.hang_timeout),
      folder_(config),
      progress_(comm.size(), config.metrics, config.optimizer.averages() ? "ema" : ""),
      stop_vote_({comm.is_root() ? end_of_job(config.run.wall_limit()) : std::nullopt,
                  comm.is_root() ? std::optional(folder_.stop_file()) : std::nullopt},
                 owner),
      deck_(config, comm),
      training_(*deck_.training),
      trainer_(training_.trainer()),
      batches_(deck_, state_.data),
      evaluations_(deck_, state_.evaluation, state_.data, progress_, owner),
      saved_state_(deck_, folder_, state_, evaluations_.selection(), progress_),
      audit_(deck_),
      checkpoint_schedule_(config.checkpoint),
      checkpoints_(deck_, folder_, saved_state_, audit_, evaluations_.selection(), progress_) {
  const bool takes_up = earlier_ && earlier_->has_begun;
  comm_.run_on_root([&] { folder_.claim(); });
  std::optional<std::vector<NamedArray>> weights;
  comm_.run_on_root([&] {
    if (takes_up) folder_.take_up();
    weights = open_folder();
    if (earlier_ && !is_complete_) earlier_->has_begun = true;
  });
  watchdog_->set_shared_folder(folder_.waiting());
  is_complete_ = comm_.from_root(is_complete_) != 0;
  if (earlier_ && !is_complete_) earlier_->has_begun = true;  // on all ranks, in case rank 0 is lost
  if (comm_.from_root(weights.has_value()) != 0)
    initialize_other_ranks(deck_.config, trainer_.model(), std::move(weights).value_or(std::vector<NamedArray>()),
                           comm_);
  saved_state_.share();
  if (!is_complete_) checkpoints_.make_room();
  comm_.run_collectively([&] { batches_.begin(); });
  give_back_freed_memory();
  watchdog_->set_idle(true);  // nothing is expected before `run`
}

/// Finds where to begin, and makes the files that the run will write. On rank 0. Returns what the run takes of
/// model.weights; none if there is a checkpoint to go on from.
std::optional<std::vector<NamedArray>> TrainingRun::open_folder() {
  const RunConfig& config = deck_.config;
  if (!folder_.goes_on_by_itself()) with_positions(config.source, [&] { require_resumed_file(config); });
  const std::optional<Checkpoint> checkpoint = folder_.find_checkpoint();
  std::optional<std::vector<NamedArray>> weights;
  if (checkpoint) {
    saved_state_.restore(*checkpoint, folder_.resumed_from());
  } else {
    weights = initialize_parameters(config, trainer_.model());
    if (!config.run.branch_from.empty()) saved_state_.branch();
  }
  is_complete_ = finished() && folder_.has_ended();
  const std::int64_t step = trainer_.steps();
  const ResumePoint point{.file = folder_.resumed_from(),
                          .step = step,
                          .applied = trainer_.update().count().applied(),
                          .examples = deck_.examples(),
                          .complete = is_complete_};
  if (checkpoint) check_changes(config, deck_.text, *checkpoint, point);
  if (is_complete_) return weights;
  folder_.prepare(step, deck_.text);
  if (checkpoint) say_what_has_changed(config, deck_.text, *checkpoint, point);
  progress_.open(folder_.metrics(), folder_.goes_on() ? state_.curves.metrics_rows : 0);
  const bool is_there = folder_.goes_on() && std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  checkpoints_.open(is_there ? step : -1);
  return weights;
}

}  // namespace lockstep
