// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/run_checkpoints.hpp"

#include <utility>

#include "checkpoint/training_arrays.hpp"

namespace lockstep {

RunCheckpoints::RunCheckpoints(const Communicator& comm, const RunConfig& config, const RunFolder& folder,
                               Trainer& trainer, Contents contents)
    : comm_(comm),
      options_(config.checkpoint),
      audit_every_(config.parallel.audit_every),
      path_(folder.checkpoints()),
      trainer_(trainer),
      contents_(std::move(contents)) {
  if (comm_.size() > 1 && audit_every_ > 0) audit_.emplace(comm_, trainer_.model().parameters(), trainer_.optimizer());
  trainer_.before_update([this] {
    if (writer_) writer_->wait_for_snapshot();
  });
}

void RunCheckpoints::open(std::int64_t step) {
  writer_.emplace(path_, options_.keep, step);
  if (options_.regular()) writer_->memory(training_array_bytes(trainer_.model().parameters(), trainer_.optimizer()));
  best_in_newest_ = contents_.best();
}

bool RunCheckpoints::due(std::optional<std::int64_t> epoch) const {
  return (options_.every_steps > 0 && trainer_.steps() % options_.every_steps == 0) ||
         (options_.every_epochs > 0 && epoch && *epoch % options_.every_epochs == 0);
}

bool RunCheckpoints::time_has_come() const {
  return comm_.is_root() && options_.every_minutes > 0 && since_last_.seconds() >= 60 * options_.every_minutes;
}

void RunCheckpoints::audit_if_due() {
  if (audit_ && trainer_.steps() % audit_every_ == 0) compare_replicas();
}

void RunCheckpoints::compare_replicas() {
  if (!audit_ || std::exchange(audited_step_, trainer_.steps()) == trainer_.steps()) return;
  trainer_.strategy().finish_update(space_);
  audit_->compare(space_, trainer_.steps());
}

void RunCheckpoints::write() {
  const PhaseClock::Scope phase(trainer_.clock(), StepPhase::checkpoint);
  compare_replicas();  // what differs must not take the place of what was good
  since_last_.restart();
  if (!trainer_.guard().parameters_are_finite(space_)) return;
  const WholeStates states = trainer_.strategy().gather_states(space_, trainer_.optimizer());
  if (!writer_) return;
  const std::span<std::byte> memory = writer_->memory(
      training_array_bytes(trainer_.model().parameters(), trainer_.optimizer()));
  best_in_newest_ = contents_.best();
  const bool copies = memory_is_separate || trainer_.strategy().ranks_share_parameters();
  writer_->write_async(trainer_.steps(), snapshot(states, copies ? memory : std::span<std::byte>()),
                       contents_.before_commit, best_in_newest_);
}

void RunCheckpoints::finish() {
  const PhaseClock::Scope phase(trainer_.clock(), StepPhase::checkpoint);
  compare_replicas();
  const WholeStates states = trainer_.strategy().gather_states(space_, trainer_.optimizer());
  comm_.run_collectively([&] {
    if (!writer_) return;
    writer_->wait();
    if (is_saved()) return;
    best_in_newest_ = contents_.best();
    writer_->write_now(trainer_.steps(), snapshot(states, {}), contents_.before_commit, best_in_newest_);
  });
}

void RunCheckpoints::tidy() const {
  if (!writer_) return;
  std::vector<std::int64_t> kept = contents_.best();
  // A run that goes on from the newest checkpoint knows the best of that one, and not what came after it.
  kept.insert(kept.end(), best_in_newest_.begin(), best_in_newest_.end());
  writer_->tidy(kept);
}

void RunCheckpoints::go_back_to(std::int64_t step) {
  audited_step_ = -1;
  if (!writer_) return;
  writer_->set_written_step(step);
  best_in_newest_ = contents_.best();
}

void RunCheckpoints::outdate() {
  if (writer_) writer_->set_written_step(-1);
}

void RunCheckpoints::wait() {
  if (writer_) writer_->wait();
}

double RunCheckpoints::seconds_for_next() const {
  constexpr double bytes_a_second = 100e6;
  const double longest = writer_ ? writer_->times().longest : 0;
  return longest > 0 ? longest
                     : static_cast<double>(training_array_bytes(trainer_.model().parameters(), trainer_.optimizer())) /
                           bytes_a_second;
}

Checkpoint RunCheckpoints::snapshot(const WholeStates& states, std::span<std::byte> memory) const {
  return {.arrays = training_arrays(space_, trainer_.model().parameters(), states, memory), .texts = contents_.texts()};
}

}  // namespace lockstep
