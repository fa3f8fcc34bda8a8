// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run does before its first step; the rest is in training_run.cpp.
#include <filesystem>
#include <optional>

#include "core/host_memory.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/resume.hpp"
#include "run/training/surviving_run.hpp"
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
      prepared_(config, comm),
      run_trainer_(*prepared_.run_trainer),
      trainer_(run_trainer_.trainer()),
      batches_(prepared_, state_.data),
      evaluations_(prepared_, state_.evaluation, state_.data, progress_, owner),
      saved_state_(prepared_, folder_, state_, evaluations_.selection(), progress_),
      audit_(prepared_),
      checkpoint_schedule_(config.checkpoint),
      checkpoints_(prepared_, folder_, saved_state_, audit_, evaluations_.selection(), progress_) {
  const bool takes_up = earlier_ && earlier_->has_begun;
  comm_.run_on_root([&] { folder_.claim(); });
  std::optional<std::vector<NamedArray>> weights;
  comm_.run_on_root([&] {
    if (takes_up) folder_.continue_attempt();
    weights = open_folder();
    if (earlier_ && !is_complete_) earlier_->has_begun = true;
  });
  watchdog_->set_shared_folder(folder_.waiting());
  is_complete_ = comm_.from_root(is_complete_) != 0;
  if (earlier_ && !is_complete_) earlier_->has_begun = true;  // on all ranks, in case rank 0 is lost
  if (comm_.from_root(weights.has_value()) != 0)
    initialize_other_ranks(prepared_.config, trainer_.model(), std::move(weights).value_or(std::vector<NamedArray>()),
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
  const RunConfig& config = prepared_.config;
  if (!folder_.resumes_automatically()) with_positions(config.source, [&] { require_resumed_file(config); });
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
                          .examples = prepared_.examples(),
                          .complete = is_complete_};
  if (checkpoint) check_changes(config, prepared_.text, *checkpoint, point);
  if (is_complete_) return weights;
  folder_.prepare(step, prepared_.text);
  if (checkpoint) say_what_has_changed(config, prepared_.text, *checkpoint, point);
  progress_.open(folder_.metrics(), folder_.continues_own_run() ? state_.curves.metrics_rows : 0);
  const bool is_there = folder_.continues_own_run() &&
                        std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  checkpoints_.open(is_there ? step : -1);
  return weights;
}

}  // namespace lockstep
