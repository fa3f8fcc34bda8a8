// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_checkpoints.hpp"

#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/neighbour_recovery.hpp"

namespace lockstep {

RunCheckpoints::RunCheckpoints(const Communicator& comm, const RunConfig& config, const RunFolder& folder,
                               Trainer& trainer, Contents contents)
    : comm_(comm),
      options_(config.checkpoint),
      audit_every_(config.parallel.audit_every),
      path_(folder.checkpoints()),
      trainer_(trainer),
      state_(trainer.strategy()),
      contents_(std::move(contents)),
      numbers_(comm_, state_.held_numbers(trainer_.optimizer())) {
  if (comm_.size() > 1 && audit_every_ > 0) begin_audits();
  trainer_.before_update([this] {
    if (writer_) writer_->wait_for_snapshot();
    else giving_.wait_for_copy();
    if (copies_) copies_->wait_for_snapshot();
  });
}

void RunCheckpoints::restore_numbers() {
  comm_.run_collectively([&] {
    wait();
    if (!comm_.is_root()) return numbers_.serve();
    const NumberStream::Turn turn(numbers_);
    if (restored_) lockstep::restore_numbers(numbers_, *restored_, [] { heartbeat().beat(); });
    restored_.reset();
  });
}

void RunCheckpoints::open(std::int64_t step) {
  writer_.emplace(numbers_, path_, options_.keep, step);
  best_in_newest_ = contents_.best();
  tidy();  // on a full disk, none that is written would do so
}

void RunCheckpoints::make_room(const RunFolder& folder) {
  const bool keeps_copies = options_.neighbours_every > 0;
  if (options_.regular() || keeps_copies) comm_.run_collectively([&] { numbers_.make_room(); });
  if (!keeps_copies && !had_copies_) return;
  std::string mark;
  std::optional<MemoryFolder> memory;
  comm_.run_collectively([&] {
    memory.emplace(folder.path()).clear();  // of what is on disk by now, or of nobody
    if (keeps_copies && comm_.is_root()) mark = folder.identify_copies();
  });
  if (!keeps_copies) return;
  comm_.broadcast(mark);
  copies_.emplace(Topology(comm_), *memory, mark, numbers_);
  copied_step_ = trainer_.steps();
}

void RunCheckpoints::recover_from_neighbours(const RunFolder& folder) {
  std::string mark;
  std::int64_t newest = -1;
  comm_.run_collectively([&] {
    if (options_.neighbours_every > 0) MemoryFolder::require();
    if (!comm_.is_root()) return;
    mark = folder.copies_of();
    newest = newest_step(path_);
  });
  had_copies_ = comm_.all_reduce_max(std::ssize(mark)) != 0;
  const bool goes_on = comm_.all_reduce_max(comm_.is_root() && folder.goes_on_by_itself()) != 0;
  if (!had_copies_ || !goes_on) return;
  std::optional<MemoryFolder> memory;
  comm_.run_collectively([&] { memory.emplace(folder.path()); });
  const CheckpointEvents events{.progress = [] { heartbeat().beat(); }};
  if (const auto step = lockstep::recover_from_neighbours(Topology(comm_), *memory, mark, newest, path_, events))
    log("{}: made of the copies in the memory of the nodes, which are newer than what was on disk",
        (path_ / checkpoint_name(*step)).string());
}

bool RunCheckpoints::time_has_come() const {
  return comm_.is_root() && options_.every_minutes > 0 && since_last_.seconds() >= 60 * options_.every_minutes;
}

bool RunCheckpoints::has_come(const StepsDone& steps, const StepRequests& votes) const {
  const std::int64_t every_steps = options_.every_steps, every_epochs = options_.every_epochs;
  return votes.checkpoint || (every_steps > 0 && steps.have_come_to(every_steps)) ||
         (every_epochs > 0 && steps.have_ended(every_epochs));
}

void RunCheckpoints::begin_audits() {
  audit_.emplace(
      comm_, state_.ranks_of_same_part(), trainer_.model().parameters(), trainer_.optimizer(),
      trainer_.strategy().ranks_have_same_states() ? ReplicaAudit::States::alike : ReplicaAudit::States::own);
  if (audit_->compares_anything()) return;
  audit_.reset();
  if (comm_.is_root())
    warn(
        "parallel.audit_every: there is nothing to compare, as parallel.shard leaves each number to one rank alone; "
        "leave it out, or divide the model in groups (parallel.shard_group), which are compared");
}

void RunCheckpoints::audit_if_due(std::int64_t steps) {
  if (!audit_) return;
  is_audit_due_ |= trainer_.steps() % audit_every_ < steps;
  if (is_audit_due_ && trainer_.has_common_parameters()) compare_replicas();
}

void RunCheckpoints::compare_replicas() {
  is_audit_due_ = false;
  if (!audit_ || std::exchange(audited_step_, trainer_.steps()) == trainer_.steps()) return;
  state_.finish_update(space_);
  audit_->compare(space_, trainer_.steps());
}

void RunCheckpoints::write() {
  const PhaseClock::Scope phase(trainer_.clock(), StepPhase::checkpoint);
  is_owed_ = false;
  since_last_.restart();
  if (!is_good()) return;
  if (copies_) copies_->wait();
  const bool at_once = memory_is_separate || state_.held_numbers_change_early();
  if (!writer_) {
    wait();
    if (at_once) numbers_.copy(space_);
    return giving_.start(
        numbers_.may_go_behind_steps(),
        [this, at_once] {
          if (!at_once) numbers_.copy(space_);
        },
        [this] {
          try {
            numbers_.serve();
          } catch (const Error& error) {  // of which rank 0 has heard
            warn("the checkpoint lacks this rank's part: {}", error.what());
          }
        });
  }
  writer_->write_async(trainer_.steps(), contents(),
                       at_once ? CheckpointWriter::Copy::at_once : CheckpointWriter::Copy::behind);
}

void RunCheckpoints::write_copies() {
  const PhaseClock::Scope phase(trainer_.clock(), StepPhase::checkpoint);
  if (!is_good()) return;
  copied_step_ = trainer_.steps();
  wait();
  std::map<std::string, std::string> texts;
  if (comm_.is_root()) texts = contents_.texts();
  copies_->write(
      trainer_.steps(), std::move(texts), memory_is_separate || state_.held_numbers_change_early(),
      comm_.is_root() ? contents_.before_commit : [] {});
}

/// What differs, or is not finite, must not take the place of what was good.
bool RunCheckpoints::is_good() {
  compare_replicas();
  if (!trainer_.guard().parameters_are_finite(space_)) return false;
  space_.fence("lockstep::checkpoint");
  return true;
}

void RunCheckpoints::finish() {
  const PhaseClock::Scope phase(trainer_.clock(), StepPhase::checkpoint);
  compare_replicas();
  space_.fence("lockstep::checkpoint");
  comm_.run_collectively([&] {
    wait();
    numbers_.forget_copy();
    if constexpr (memory_is_separate) {  // a thread gives them
      numbers_.make_room();
      numbers_.copy(space_);
    }
  });
  comm_.run_collectively([&] {
    if (!writer_) return numbers_.serve();
    NumberStream::Turn turn(numbers_);
    if (is_saved()) return;
    try {
      writer_->write_now(trainer_.steps(), contents(), turn);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::io_error) throw;
      const std::int64_t newest = newest_step(path_);
      throw Error(error.status(),
                  fmt::format("{}: the last checkpoint is not there ({}); make room, or mend what else is wrong, and "
                              "start again: the run {}",
                              (path_ / checkpoint_name(trainer_.steps())).string(), error.what(),
                              newest < 0 ? "begins anew" : "goes on from " + checkpoint_name(newest)));
    }
  });
  if (copies_) copies_->remove();
}

void RunCheckpoints::say_when_only_at_the_end(double seconds_left) {
  constexpr double far = 600;
  if (options_.regular() || options_.neighbours_every > 0 || seconds_left < far || has_said_when_) return;
  has_said_when_ = true;
  log("checkpoints: at the end only; a run that is killed before begins anew (checkpoint.every_minutes: 15 saves on the "
      "way)");
}

void RunCheckpoints::tidy() const {
  if (!writer_) return;
  std::vector<std::int64_t> kept = contents_.best();
  // A run that goes on from the newest checkpoint knows the best of that one, and not what came after it.
  kept.insert(kept.end(), best_in_newest_.begin(), best_in_newest_.end());
  writer_->tidy(kept);
}

std::optional<RunFolder::Found> RunCheckpoints::find_good(const RunFolder& folder) {
  wait();
  return folder.newest_checkpoint(went_back_to_);
}

void RunCheckpoints::quarantine_others(std::int64_t step) {
  went_back_to_ = checkpoint_name(step);
  quarantine_checkpoints_after(path_, step);
  point_link(path_, latest_name, went_back_to_);
}

void RunCheckpoints::go_back_to(std::int64_t step) {
  audited_step_ = -1;
  if (copies_) copies_->remove();  // of steps that are left
  copied_step_ = step;
  if (!writer_) return;
  writer_->set_written_step(step);
  best_in_newest_ = contents_.best();
}

void RunCheckpoints::outdate() {
  if (writer_) writer_->set_written_step(-1);
}

void RunCheckpoints::wait() {
  if (copies_) copies_->wait();
  if (writer_) return writer_->wait();
  const WaitsForRanks waits;
  giving_.wait([] {});
}

double RunCheckpoints::seconds_for_next() const {
  constexpr double bytes_a_second = 100e6;
  const double longest = writer_ ? writer_->times().longest : 0;
  return longest > 0 ? longest : static_cast<double>(numbers_.bytes()) / bytes_a_second;
}

CheckpointWriter::Contents RunCheckpoints::contents() {
  best_in_newest_ = contents_.best();
  return {.texts = contents_.texts(), .before_commit = contents_.before_commit, .best = best_in_newest_};
}

}  // namespace lockstep
