// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_update.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

StepUpdate::StepUpdate(const TrainingConfig& config, const Communicator& comm, const Dataset& data,
                       const RunLength& length, StepGuard::Options options, std::unique_ptr<StepVotes> votes,
                       const Parts& parts)
    : comm_(comm),
      parts_(parts),
      coefficients_(config, comm, parts.optimizer, length),
      guard_(config, comm, data, parts.model, parts.optimizer, options),
      votes_(std::move(votes)),
      early_{.is_possible = parts.optimizer.begins_early() && config.updates_early()},
      counts_missed_(options.counts_missed),
      reads_at_once_(options.counts_missed && config.precision.scales_loss()) {}

void StepUpdate::begin(const BatchPlan& batch) {
  examples_ = batch.global_examples;
  has_voted_ = false;
  guard_.begin(space_, batch, count_.done + 1);
}

void StepUpdate::provide_coefficients() {
  coefficients_.provide(space_, {.count = count_, .untaken = decisions().untaken()});
}

void StepUpdate::vote(const RankRequests& requests) {
  votes_->begin(requests);
  has_voted_ = true;
  if (early_.is_possible) provide_coefficients();
}

void StepUpdate::forward_started(bool is_last, const Requests& requests) {
  votes_->start_copies(space_, parts_.losses.in_memory(), parts_.optimizer.nonfinite());
  if (is_last && early_.is_possible) vote(requests());
}

void StepUpdate::advance() {
  parts_.between_layers();
  if (!has_voted_) return;
  if (early_.is_possible) update_early();
  else votes_->advance();
}

/// Updates parameters while gradients are summed, once it is known that the step is applied whatever these are. If the
/// loss is finite, gradients that are not are left to the next step, which finds them in the parameters.
void StepUpdate::update_early() {
  Optimizer& optimizer = parts_.optimizer;
  if (!early_.votes) {
    if (!votes_->advance()) return;
    early_.votes = votes_->finish();
    space_.fence("lockstep::trainer::loss");
    const SummedLoss loss = summed_loss(*early_.votes);
    const bool bad_parameters = early_.votes->bad_parameters || *optimizer.nonfinite().as<std::int32_t>() != 0;
    if (bad_parameters || loss.examples == 0 || !std::isfinite(loss.mean())) return;
    early_.outcome = judge(*early_.votes);
    early_.has_begun = true;
    parts_.before_change();
    optimizer.begin_step(space_, parts_.model.parameters(), decisions().scalars());
  }
  if (early_.has_begun) optimizer.gradients_are_final(space_, parts_.strategy.summed());
}

StepVotes::Vote StepUpdate::finish_gradients(const Requests& requests) {
  if (!has_voted_) vote(requests());
  const PhaseClock::Scope phase(parts_.clock, RunPhase::reduce);
  parts_.strategy.finish_gradients(space_, [this] { advance(); });
  return early_.votes ? *early_.votes : votes_->finish();
}

StepResult StepUpdate::conclude(const StepVotes::Vote& votes) {
  const PhaseClock::Scope phase(parts_.clock, RunPhase::optimizer);
  if (!early_.is_possible) provide_coefficients();
  StepResult result{.requests = {.stop = votes.stop, .checkpoint = votes.checkpoint},
                    .examples = examples_,
                    .outcome = early_.has_begun ? early_.outcome : judge(votes)};
  early_ = {.is_possible = early_.is_possible};
  if (!result.outcome || result.outcome->status == StepOutcome::Status::applied) {
    parts_.before_change();
    parts_.graphs.run(space_, {StepGraphs::Part::Kind::update}, StepGraphs::Ranks::this_one, [&] {
      parts_.strategy.update(space_, decisions().scalars(), 1 / static_cast<double>(examples_));
    });
  }
  if (decisions().untaken() > 1) result.outcome = take_outcome();
  return result;
}

SummedLoss StepUpdate::summed_loss(const StepVotes::Vote& votes) const {
  return {.loss = votes.loss,
          .weight = votes.weight,
          .in_memory = comm_.size() > 1 ? nullptr : parts_.losses.in_memory(),
          .positions = parts_.losses.positions(),
          .examples = examples_};
}

/// Returns the outcome of the step; none if the host hears of it later, and the device decides about the update.
std::optional<StepOutcome> StepUpdate::judge(const StepVotes::Vote& votes) {
  // Not recorded on several ranks, because votes are numbers of the host.
  parts_.graphs.run(space_, {StepGraphs::Part::Kind::decision}, StepGraphs::Ranks::all, [&] {
    guard_.judge(space_, parts_.strategy, summed_loss(votes), votes.bad_parameters,
                 coefficients_.update_options(space_, parts_.strategy));
  });
  guard_.judged(space_);
  // On devices, outcomes are taken a step late, when the device has the next step already.
  const bool is_missed = counts_missed_ && examples_ == 0;  // the next step's coefficients depend on it
  const bool reads_late = memory_is_separate && !guard_.watches_loss() && !reads_at_once_ && !is_missed;
  std::optional<StepOutcome> outcome;
  if (!reads_late) outcome = take_outcome();
  if (!outcome || outcome->done()) parts_.strategy.judged(space_, ParallelStrategy::Verdict::can_be_done);
  return outcome;
}

void StepUpdate::end() {
  const PhaseClock::Scope phase(parts_.clock, RunPhase::reduce);
  ++count_.done;
  parts_.strategy.end_step(space_);
}

/// Takes the outcome of the oldest step that has one. A step that cannot be done takes those after it along.
StepOutcome StepUpdate::take_outcome() {
  const StepOutcome outcome = guard_.take(space_);
  if (outcome.status == StepOutcome::Status::skipped && counts_missed_) {
    ++count_.missed;
  } else if (outcome.status == StepOutcome::Status::skipped) {
    ++count_.skipped;
    ++count_.skipped_in_a_row;
  } else if (outcome.done()) {
    count_.skipped_in_a_row = 0;
  }
  if (!outcome.done()) {
    count_.done = outcome.number - 1;
    parts_.strategy.judged(space_, ParallelStrategy::Verdict::cannot_be_done);
  }
  return outcome;
}

std::optional<StepOutcome> StepUpdate::take_last() {
  if (decisions().untaken() == 0) return std::nullopt;
  return take_outcome();
}

double StepUpdate::learning_rate() const {
  const auto before = [](std::int64_t steps) { return std::max<std::int64_t>(1, steps) - 1; };
  return coefficients_.learning_rate(before(count_.applied()), before(count_.done));
}

void StepUpdate::branch_after(std::int64_t optimizer_steps, double learning_rate) {
  count_.before = optimizer_steps;
  coefficients_.begin_after(count_, learning_rate);
}

void StepUpdate::set_optimizer_steps(std::int64_t steps) {
  count_.missed = count_.before + count_.applied() - steps;
  set_applied();
}

void StepUpdate::go_to(std::int64_t steps, std::optional<std::int64_t> optimizer_steps) {
  count_.done = steps;
  set_optimizer_steps(optimizer_steps.value_or(count_.before + count_.applied()));
  provide_next();
}

void StepUpdate::describe_state(StateFields& fields) {
  count_.describe_state(fields);
  double learning_rate = coefficients_.learning_rate_before(count_);
  describe_last_learning_rate(fields, count_, learning_rate);
  guard_.describe_state(fields);
  if (!fields.restores()) return;
  coefficients_.begin_after(count_, learning_rate);
  set_applied();
}

}  // namespace lockstep
