// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run does before its first step; the rest is in training_run.cpp.
#include <algorithm>
#include <filesystem>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/state_text.hpp"
#include "core/freed_memory.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/rank_agreement.hpp"
#include "run/training/resume.hpp"
#include "run/training/trainer_setup.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {
TrainingRun::TrainingRun(const RunConfig& config, const Communicator& comm, RunOwner* owner, EarlierAttempts* earlier)
    : comm_(comm),
      earlier_(earlier),
      config_(config),
      deck_(agreed_deck(comm, write_config(config_))),
      watchdog_(comm, config_.run.hang_timeout),
      folder_(config_),
      progress_(comm.size(), config.metrics, config.optimizer.averages() ? "ema" : ""),
      stop_vote_({comm.is_root() ? end_of_job(config_.run.wall_limit()) : std::nullopt,
                  comm.is_root() ? std::optional(folder_.stop_file()) : std::nullopt},
                 owner) {
  const SharedReading reading(comm_, config_.source);
  Experiment experiment = open_experiment(config_, reading);
  comm_.run_collectively([&] { with_positions(config_.source, [&] { check_sampler(config_, comm_.size()); }); });
  data_ = std::move(experiment.data);
  provenance_ = provenance(comm_, data_, reading);
  trainer_ = make_trainer(config_, std::move(experiment.graph), std::move(experiment.loss), *data_.train, comm_);
  batches_.emplace(comm_, config_, data_, *trainer_, state_.data);
  comm_.run_collectively([&] { batches_->prepare(trainer_->partition()); });
  balance_.emplace(config_.parallel, comm_, *trainer_, trainer_->strategy(),
                   std::min(config_.batch.largest(), data_.train->size()));
  evaluations_.emplace(comm_, config_, data_, *trainer_, state_.evaluation, state_.data, progress_, owner);
  checkpoints_.emplace(comm_, config_, folder_, *trainer_,
                       RunCheckpoints::Contents{.texts = [this] { return checkpoint_texts(); },
                                                .best = [this] { return evaluations_->selection().best_steps(); },
                                                // The checkpoint counts on the rows, and replaces others.
                                                .before_commit =
                                                    [this] {
                                                      folder_.lock().require();
                                                      progress_.file()->flush_to_disk();
                                                    }});
  begin();
}

std::map<std::string, std::string> TrainingRun::checkpoint_texts() {
  std::map<std::string, std::string> texts{{"deck", deck_}, {"provenance", provenance_}};
  if (const std::string vocabulary = data_.train->vocabulary(); !vocabulary.empty()) texts["vocabulary"] = vocabulary;
  state_.curves.metrics_rows = progress_.file()->rows();
  texts["state"] = state_text([this](StateFields& fields) { describe_state(fields); });
  return texts;
}

/// Rank 0 alone reads and writes the folder; then all ranks stand where the run is to go on. Collective.
void TrainingRun::begin() {
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    folder_.claim();
    if (earlier_ && earlier_->has_begun) folder_.take_up();
  });
  checkpoints_->recover_from_neighbours(folder_);
  bool begins = false;
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    begins = open_folder();
    if (earlier_ && !is_complete_) earlier_->has_begun = true;
  });
  watchdog_.set_shared_folder(folder_.waiting());
  is_complete_ = comm_.all_reduce_max(comm_.is_root() && is_complete_) != 0;
  begins = comm_.all_reduce_max(comm_.is_root() && begins) != 0;
  comm_.run_collectively([&] {
    Model& model = trainer_->model();
    if (begins && !comm_.is_root() && model.parameters().windows().division.values)
      initialize_parameters(config_, model);
  });
  share_state();
  if (!is_complete_) checkpoints_->make_room(folder_);
  comm_.run_collectively([&] { batches_->begin(balance_->partition()); });
  give_back_freed_memory();
  watchdog_.set_idle(true);  // until `run`
}

void TrainingRun::describe_state(StateFields& fields) {
  trainer_->describe_state(fields);
  state_.describe_state(fields);
  evaluations_->selection().describe_state(fields);
  ExampleOrder order(config_, data_.train->size());  // check_resume has seen to that it is the checkpoint's
  order.describe_state(fields);
}

/// What rank 0 has found goes to all.
void TrainingRun::share_state() {
  const auto describe = [this](StateFields& fields) { describe_state(fields); };
  std::string text = state_text(describe);
  comm_.broadcast(text);
  restore_state(text, describe);
  heartbeat().step = trainer_->steps() + 1;
  checkpoints_->restore_numbers();
  trainer_->share_parameters();
}

/// Finds where to begin, and makes the files that the run will write; on rank 0. Whether no checkpoint is there.
bool TrainingRun::open_folder() {
  if (!folder_.goes_on_by_itself()) with_positions(config_.source, [&] { require_resumed_file(config_); });
  const std::optional<Checkpoint> checkpoint = folder_.find_checkpoint();
  if (checkpoint) {
    restore(*checkpoint, folder_.resumed_from());
  } else {
    initialize_parameters(config_, trainer_->model());
    if (!config_.run.branch_from.empty()) branch();
  }
  is_complete_ = finished() && folder_.has_ended();
  const std::int64_t step = trainer_->steps();
  const ResumePoint point{.file = folder_.resumed_from(),
                          .step = step,
                          .applied = trainer_->applied_steps(),
                          .examples = data_.train->size(),
                          .complete = is_complete_};
  if (checkpoint) check_changes(config_, deck_, *checkpoint, point);
  if (is_complete_) return !checkpoint;
  folder_.prepare(step, deck_);
  if (checkpoint) say_what_has_changed(config_, deck_, *checkpoint, point);
  progress_.open(folder_.metrics(), folder_.goes_on() ? state_.curves.metrics_rows : 0);
  const bool is_there = folder_.goes_on() && std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  checkpoints_->open(is_there ? step : -1);
  return !checkpoint;
}

/// Goes on from the checkpoint; on rank 0.
void TrainingRun::restore(const Checkpoint& checkpoint, const std::string& file) {
  with_positions(config_.source, [&] {
    check_resume(checkpoint, file, config_, data_.train->size(), trainer_->model().parameters().parameters());
  });
  if (const auto before = checkpoint.texts.find("provenance");
      before != checkpoint.texts.end() && !same_data(before->second, provenance_))
    warn("{}: was made with other data than those that are there now; the run goes on with these", file);
  checkpoints_->restore_from(file);
  ExampleOrder order;
  restore_state(checkpoint, file, [&](StateFields& fields) {
    describe_state(fields);
    order.describe_state(fields);
  });
  if (order.version != example_order && order.shuffle && state_.data.position.next > 0)
    warn(
        "{}: was written in the middle of an epoch by a version that shuffles in another way; what is left of this epoch "
        "has some examples for the second time, and others not at all",
        file);
  evaluations_->selection().forget_best([&](std::int64_t step) {  // of another folder, or removed
    return step != trainer_->steps() && !std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  });
}

/// Begins with what another run has come to; on rank 0.
void TrainingRun::branch() {
  const std::string& file = config_.run.branch_from;
  const Checkpoint checkpoint = with_positions(
      config_.source, [&] { return open_branching_point(config_, [] { heartbeat().beat(); }); });
  with_positions(config_.source, [&] {
    check_branch(checkpoint, file, config_.optimizer, trainer_->model().parameters().parameters());
  });
  checkpoints_->restore_from(file);
  const std::int64_t steps = optimizer_steps_of(checkpoint, file);
  trainer_->branch_behind(steps);
  log("{}: the run begins with its parameters and its optimizer's state, which {} steps have made", file, steps);
}

}  // namespace lockstep
