// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/meeting_workers.hpp"

#include <utility>

namespace lockstep {

MeetingWorkers::MeetingWorkers(Run run, Give what, ParameterBuffer& parameters)
    : run_(std::move(run)),
      parameters_(parameters),
      square_(parameters.trained_size()),
      at_meeting_("lockstep::meeting_workers::square", DType::f64, {1}) {
  if (what == Give::rounds) round_.emplace(run_.steps, run_.parts, parameters);
}

void MeetingWorkers::go_on_behind(std::int64_t steps, std::int64_t optimizer_steps) {
  run_.met = run_.steps.updates_before(steps);
  run_.optimizer_steps = optimizer_steps;
}

void MeetingWorkers::update_by(Optimizer& optimizer, Coefficients coefficients) {
  run_.optimizer = &optimizer;
  run_.coefficients = std::move(coefficients);
}

PartRequest MeetingWorkers::next_part(const ExecSpace& space) {
  if (std::exchange(meets_, false)) {
    is_first_ = true;
    set_out(run_.steps.next_meeting(run_.met + 1, run_.course.meets));
  }
  if (round_ && round_->under_way()) return request(round_->part());
  const Turn turn = next_turn(space);
  if (turn.part) {
    if (!round_) return request(*turn.part);
    round_->begin(space, *turn.part, turn.steps);
    return request(round_->part());
  }
  meets_ = true;
  meeting_version_ = turn.version;
  // The sum of gradients that gradient_square is asked for is one over all examples since the last meeting.
  factor_ = round_ ? static_cast<double>(turn.examples) / static_cast<double>(run_.collect)
                   : static_cast<double>(turn.version - run_.met);
  return {.batches = run_.steps.behind(turn.version), .examples = turn.examples};
}

StepRanks MeetingWorkers::begin_step(const ExecSpace&, std::int64_t, const BatchPlan& batch,
                                     const std::function<void()>&) {
  StepRanks ranks = ranks_of_step(batch);
  if (std::exchange(is_first_, false)) ranks.losses = StepRanks::Losses::anew;
  if (!meets_) {
    ranks.meets = false;
    ranks.updates = 0;
    return ranks;
  }
  return {.examples = batch.global_examples,
          .one_version = false,
          .updates = run_.steps.behind(meeting_version_) - run_.steps.behind(run_.met),
          .losses = ranks.losses};
}

void MeetingWorkers::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double) {
  if (round_ && !meets_) round_->update(space, optimizer, run_.coefficients, *step, own_steps());
}

bool MeetingWorkers::end_step(const ExecSpace& space, Optimizer&, double, const std::function<void()>&) {
  if (meets_) {
    run_.met = meeting_version_;
    meeting_is_over();
  } else if (round_ && round_->end_step()) {
    round_->take_difference(space);
    round_is_over(space);
  }
  return false;
}

Tensor MeetingWorkers::gradient_square(const ExecSpace& space) {
  if (!meets_) return square_.compute(space, parameters_.gradients({0, parameters_.trained_size()}));
  const double square = square_of_sum(space) * factor_ * factor_;
  copy_from_host(space, &square, at_meeting_.get());
  return at_meeting_.get();
}

/// Of scaled losses, which are refused.
Tensor MeetingWorkers::nonfinite_gradients(const ExecSpace& space) {
  fill_zero(space, at_meeting_.get());
  return at_meeting_.get();
}

}  // namespace lockstep
