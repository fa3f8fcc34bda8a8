// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/step_guard.hpp"

#include <cmath>
#include <utility>

namespace lockstep {

void DecisionQueue::begin(const ExecSpace& space, std::int64_t step) {
  if (std::exchange(is_changed_, false))
    copy_from_host(space, &last_, memory_.tensor(0, DType::u8, {sizeof(StepDecision)}));
  if (untaken() == 0) taken_ = step - 1;
  decided_ = step - 1;
}

std::int64_t DecisionQueue::decided(const ExecSpace& space) {
  ++decided_;
  copy_of(decided_).start(space, on_device());
  return decided_;
}

std::int64_t DecisionQueue::take() {
  ++taken_;
  last_ = copy_of(taken_).take();
  return taken_;
}

void DecisionQueue::drop_later() {
  for (; untaken() > 0; ++taken_) static_cast<void>(copy_of(taken_ + 1).take());
  change_last().halted = 0;
}

void DecisionQueue::agree(const ExecSpace& space, const Communicator& comm, bool scales) {
  const Tensor memory = memory_.tensor(0, DType::u8, {sizeof(StepDecision)});
  StepDecision decision;
  copy_to_host(space, memory, &decision);
  decision.loss_was_nonfinite = comm.any_rank(decision.loss_was_nonfinite != 0) ? 1 : 0;
  if (scales) {
    LossScaleRule::State& scaler = decision.scaler;
    scaler.scale = static_cast<float>(comm.all_reduce_min(double{scaler.scale}));
    scaler.good_steps = comm.all_reduce_min(scaler.good_steps);
    scaler.hysteresis_left = comm.all_reduce_min(scaler.hysteresis_left);
  }
  copy_from_host(space, &decision, memory);
  if (untaken() > 0) return copy_of(decided_).start(space, on_device());
  last_.scaler = decision.scaler;
  last_.loss_was_nonfinite = decision.loss_was_nonfinite;
}

StepGuard::StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
                     const Optimizer& optimizer, Options options)
    : comm_(comm),
      options_(std::move(options)),
      optimizer_(optimizer),
      model_(model),
      nonfinite_(comm, data, model),
      scales_(config.precision.scales_loss()),
      watches_(config.loss_watch.present),
      scaler_(config.precision.loss_scale),
      overflow_(model.parameters(), model.graph(), options_.sums),
      loss_watch_(config.loss_watch) {
  decisions_.change_last().scaler = scaler_.state();
}

void StepGuard::begin(const ExecSpace& space, const BatchPlan& plan, std::int64_t step) {
  decisions_.begin(space, step);
  nonfinite_.begin_step(step, plan.examples);
  begin_decision(space, scales_, plan.global_examples, step - 1, decisions_.on_device());
  if (scales_) overflow_.begin(space);
}

void StepGuard::gradient_ready(const ExecSpace& space, ElementRange range) {
  if (scales_) overflow_.inspect(space, model_.parameters(), range);
}

void StepGuard::sum_done() {
  if (scales_) overflow_.end_sum();
}

void StepGuard::judge(const ExecSpace& space, ParallelStrategy& strategy, const SummedLoss& loss, bool bad_parameters,
                      const UpdateOptions& options) const {
  if (!watches_) nonfinite_.count_gradients(space, loss, decisions_.on_device(), strategy.traits().divides_sums);
  decide_step(space,
              {.loss = loss,
               .watched = watches_,
               .bad_parameters = bad_parameters,
               .counts_missed = options_.counts_missed,
               .nonfinite_parameters = optimizer_.nonfinite().as<const std::int32_t>(),
               .nonfinite_gradients =
                   scales_ ? strategy.measure_gradients(space, ParallelStrategy::Measure::nonfinite).as<const double>()
                           : nullptr,
               .scaling = scaler_.rule(),
               .lost_gradients = nonfinite_.gradient_counts().as<const double>(),
               .tensors = nonfinite_.gradient_counts().count()},
              options, decisions_.on_device());
}

void StepGuard::judged(const ExecSpace& space) {
  const std::int64_t step = decisions_.decided(space);
  if (scales_) overflow_.end(space, step);
}

StepOutcome StepGuard::take(const ExecSpace& space) {
  const std::int64_t step = decisions_.take();
  StepOutcome outcome = explain(space, step);
  outcome.number = step;
  if (!outcome.done()) decisions_.drop_later();
  return outcome;
}

StepOutcome StepGuard::explain(const ExecSpace& space, std::int64_t step) {
  switch (decisions_.last().outcome) {
    case StepDecision::Outcome::applied: return watches_ ? watch_loss(step) : StepOutcome();
    case StepDecision::Outcome::suspicious:
    case StepDecision::Outcome::lost: return report_loss(space, step);
    case StepDecision::Outcome::overflow:
    case StepDecision::Outcome::at_floor: return report_overflow(space, step);
    case StepDecision::Outcome::empty: return {.status = StepOutcome::Status::skipped, .message = {}};
    case StepDecision::Outcome::bad_parameters:
    case StepDecision::Outcome::halted: break;
  }
  return act_on_bad_parameters(space, comm_, step - 1);
}

StepOutcome StepGuard::report_overflow(const ExecSpace& space, std::int64_t step) const {
  const std::string what = overflow_.describe(space, comm_, options_.rank_numbers, step);
  const StepDecision& last = decisions_.last();
  const double scale = last.scaler_before.scale;
  if (last.outcome == StepDecision::Outcome::at_floor)
    return {StepOutcome::Status::fatal,
            fmt::format("step {}: {} at the smallest loss scale, {:g} (precision.loss_scale.floor); continue from "
                        "the checkpoint of the step before, with a smaller learning rate or precision.compute: bf16",
                        step, what, scale)};
  return {StepOutcome::Status::skipped, fmt::format("{}; loss scale {:g} → {:g}", what, scale, last.scaler.scale)};
}

/// Returns what loss_watch says of a step that would otherwise be applied. If it objects, the step no longer counts as
/// applied.
StepOutcome StepGuard::watch_loss(std::int64_t step) {
  if (decisions_.last().has_loss == 0) return {};
  const double mean = decisions_.last().mean_loss;
  const double loss = std::isnan(mean) ? std::abs(mean) : mean;  // without a NaN's sign, which means nothing
  std::string anomaly = loss_watch_.inspect(loss);
  if (anomaly.empty()) return {};
  if (!std::isfinite(loss)) anomaly += "; " + nonfinite_.inputs(comm_, step);
  StepOutcome outcome = act_on_anomaly(fmt::format("step {}: {}", step, anomaly));
  StepDecision& last = decisions_.change_last();
  last.has_moved = --last.applied > 0 ? 1 : 0;
  if (outcome.status == StepOutcome::Status::skipped) outcome.message = anomaly;
  else last.scaler = last.scaler_before;
  return outcome;
}

/// Does with an anomaly what loss_watch asks for.
StepOutcome StepGuard::act_on_anomaly(const std::string& what) {
  if (loss_watch_.action() == LossWatchConfig::Action::stop || !loss_watch_.may_continue())
    return {StepOutcome::Status::fatal,
            fmt::format("{} (loss_watch; earlier anomalies: {}); continue from the newest checkpoint, with a smaller "
                        "learning rate or another loss_watch.on_anomaly",
                        what, loss_watch_.anomalies())};
  loss_watch_.count();
  return {loss_watch_.action() == LossWatchConfig::Action::rollback ? StepOutcome::Status::rollback
                                                                    : StepOutcome::Status::skipped,
          what};
}

/// Unless the deck says otherwise (loss_watch), a run ends where its parameters would no longer be finite, or at the
/// second loss in a row that is not.
StepOutcome StepGuard::report_loss(const ExecSpace& space, std::int64_t step) const {
  const StepDecision& last = decisions_.last();
  const bool lost = last.outcome == StepDecision::Outcome::lost;
  const std::string gradients = lost ? nonfinite_.gradients(space) : "";
  const double mean = last.mean_loss;
  const std::string found = fmt::format(
      "step {}: the loss is {}{}; {}", step, std::isnan(mean) ? std::abs(mean) : mean,
      !gradients.empty()      ? fmt::format(", and parameters would become non-finite: {} is not finite", gradients)
      : last.lost_before != 0 ? ", the second non-finite loss in a row"
                              : "",
      nonfinite_.inputs(comm_, step));
  if (!lost) return {StepOutcome::Status::applied, found + "; the run ends if the next loss is not finite either"};
  return {StepOutcome::Status::fatal,
          found +
              "; the step is not applied: continue from the checkpoint before it, with a smaller "
              "learning rate, optimizer.clip_norm, or other data"};
}

/// Reports that step number `step` has left parameters that are not finite.
StepOutcome StepGuard::act_on_bad_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step) {
  const std::string layers = nonfinite_.parameters(space), inputs = nonfinite_.inputs(ranks, step);
  // The parameters that an asynchronous rank computes by may be older than those that it has updated, and still be
  // finite.
  std::string found = fmt::format("step {}: {} are not finite after its update; {}", step,
                                  layers.empty() ? "parameters that this rank updates" : layers, inputs);
  if (watches_ && loss_watch_.rolls_back()) {
    loss_watch_.count();
    return {StepOutcome::Status::rollback, std::move(found), true};
  }
  return {StepOutcome::Status::fatal,
          found +
              "; they are not written: start again, from the newest checkpoint if there is one, with a smaller "
              "learning rate, optimizer.clip_norm, or other data",
          true};
}

StepOutcome StepGuard::inspect_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step) {
  StepOutcome outcome;
  if (!parameters_are_finite(space, ranks)) outcome = act_on_bad_parameters(space, ranks, step);
  outcome.number = step;
  return outcome;
}

StepOutcome StepGuard::inspect_validation(const Metrics& metrics, std::int64_t step) {
  StepOutcome outcome;
  const double loss = metrics.has_loss ? metrics.loss : 0;  // without a loss, the evaluation itself has warned
  if (const std::string anomaly = watches_ && metrics.has_loss ? loss_watch_.inspect_validation(loss) : "";
      !anomaly.empty())
    outcome = act_on_anomaly(fmt::format("step {}: {}", step, anomaly));
  else if (!std::isfinite(loss))
    outcome.message = fmt::format(
        "step {}: the validation loss is {}: the training has diverged (try a smaller learning rate or "
        "optimizer.clip_norm), or the data contain numbers that are not finite (`lockstep check --data` finds "
        "them); loss_watch can end such a run",
        step, loss);
  outcome.number = step;
  return outcome;
}

void StepGuard::set_applied(std::int64_t applied, bool has_moved) {
  StepDecision& last = decisions_.change_last();
  last.applied = applied;
  last.has_moved = has_moved ? 1 : 0;
}

void StepGuard::describe_state(StateFields& fields) {
  bool scales = scales_, loss_was_nonfinite = decisions_.last().loss_was_nonfinite != 0;
  fields.flag("scales_loss", scales);
  scaler_.set_state(decisions_.last().scaler);
  scaler_.describe_state(fields);
  loss_watch_.describe_state(fields);
  fields.flag("loss_was_nonfinite", loss_was_nonfinite);
  if (!fields.restores()) return;
  StepDecision& last = decisions_.change_last();
  if (scales) last.scaler = scaler_.state();  // without loss scaling, the checkpoint's scale means nothing
  last.loss_was_nonfinite = loss_was_nonfinite ? 1 : 0;
}

}  // namespace lockstep
