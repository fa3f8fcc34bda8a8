// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_guard.hpp"

#include <cmath>
#include <utility>

namespace lockstep {

StepGuard::StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
                     const Optimizer& optimizer, std::int64_t sums)
    : comm_(comm),
      optimizer_(optimizer),
      model_(model),
      nonfinite_(comm, data, model),
      scales_(config.precision.scales_loss()),
      watches_(config.loss_watch.present),
      scaler_(config.precision.loss_scale),
      overflow_(model.parameters(), model.graph(), sums),
      loss_watch_(config.loss_watch) {}

void StepGuard::begin(const ExecSpace& space, const BatchPlan& plan) {
  nonfinite_.begin_step(plan.examples);
  loss_factor_ = scales_ ? scaler_.scale() / static_cast<double>(plan.global_examples) : 1.0;
  if (scales_) overflow_.begin(space);
}

void StepGuard::gradient_ready(const ExecSpace& space, ParameterRange range) {
  if (scales_) overflow_.inspect(space, model_.parameters(), range);
}

void StepGuard::sum_done() {
  if (scales_) overflow_.end_sum();
}

StepGuard::Finding StepGuard::classify(const ExecSpace& space, ParallelStrategy& strategy, const StepVote& votes,
                                       double mean_loss, std::int64_t step) {
  if (votes.bad_parameters) return act_on_bad_parameters(space, step - 1, NonfiniteReport::Batch::of_the_step_before);
  if (scales_ && !strategy.gradients_are_finite(space)) return skip_overflow(space, step);
  const double loss = std::isnan(mean_loss) ? std::abs(mean_loss) : mean_loss;  // whose sign means nothing, and would be printed
  Finding finding;
  if (!watches_) {
    finding = act_on_nonfinite_loss(space, loss, step);
    if (finding.status == StepStatus::fatal) return finding;
  } else if (const std::string anomaly = loss_watch_.inspect(loss); !anomaly.empty()) {
    finding = act_on_anomaly(fmt::format("step {}: {}", step, anomaly));
    if (finding.status != StepStatus::skipped) return finding;
    finding.message = anomaly;
  }
  if (scales_) scaler_.update(false);
  return finding;
}

StepGuard::Finding StepGuard::skip_overflow(const ExecSpace& space, std::int64_t step) {
  const double scale = scaler_.scale();
  if (scaler_.at_floor())
    return {StepStatus::fatal,
            fmt::format("step {}: {} at the smallest loss scale, {:g} (precision.loss_scale.floor); go on from the "
                        "checkpoint of the step before, with a smaller learning rate or with precision.compute bf16",
                        step, overflow_.describe(space, comm_), scale)};
  scaler_.update(true);
  return {StepStatus::skipped,
          fmt::format("{}; loss scale {:g} → {:g}", overflow_.describe(space, comm_), scale, scaler_.scale())};
}

/// What loss_watch wants.
StepGuard::Finding StepGuard::act_on_anomaly(const std::string& what) {
  if (loss_watch_.action() == LossWatchConfig::Action::stop || !loss_watch_.may_go_on())
    return {
        StepStatus::fatal,
        fmt::format("{} (loss_watch; {} such steps before); go on from the newest checkpoint, with a smaller learning "
                    "rate or another loss_watch.on_anomaly",
                    what, loss_watch_.anomalies())};
  loss_watch_.count();
  return {loss_watch_.action() == LossWatchConfig::Action::rollback ? StepStatus::rollback : StepStatus::skipped, what};
}

/// Unless the deck says otherwise (loss_watch), a run ends where its parameters would no longer be finite, or at the
/// second loss in a row that is not.
StepGuard::Finding StepGuard::act_on_nonfinite_loss(const ExecSpace& space, double loss, std::int64_t step) {
  const bool lost = !std::isfinite(loss), lost_before = std::exchange(loss_was_nonfinite_, lost);
  if (!lost) return {};
  const std::string gradients = nonfinite_.gradients(space);
  const std::string inputs = nonfinite_.inputs(NonfiniteReport::Batch::of_this_step);
  const std::string found = fmt::format("step {}: the loss is {}{}; {}", step, loss,
                                        !gradients.empty()
                                            ? fmt::format(", and so would parameters be: {} is not finite", gradients)
                                        : lost_before ? ", as in the step before"
                                                      : "",
                                        inputs);
  if (gradients.empty() && !lost_before)
    return {StepStatus::applied, found + "; the run ends if the next loss is not finite either"};
  return {StepStatus::fatal, found +
                                 "; the step is not done: go on from the checkpoint before it, with a smaller learning "
                                 "rate, optimizer.clip_norm, or other data"};
}

/// Step number `step` has left parameters that are not finite.
StepGuard::Finding StepGuard::act_on_bad_parameters(const ExecSpace& space, std::int64_t step,
                                                    NonfiniteReport::Batch batch) {
  const std::string layers = nonfinite_.parameters(space), inputs = nonfinite_.inputs(batch);
  std::string found = fmt::format("step {}: {} are not finite after its update; {}", step, layers, inputs);
  if (watches_ && loss_watch_.rolls_back()) {
    loss_watch_.count();
    return {StepStatus::rollback, std::move(found)};
  }
  return {StepStatus::fatal, found +
                                 "; they are not written: go on from the newest checkpoint, with a smaller learning "
                                 "rate, optimizer.clip_norm, or other data"};
}

StepGuard::Finding StepGuard::inspect_parameters(const ExecSpace& space, std::int64_t step) {
  if (comm_.all_reduce_max(own_parameters_are_finite(space) ? 0 : 1) == 0) return {};
  return act_on_bad_parameters(space, step, NonfiniteReport::Batch::of_this_step);
}

StepGuard::Finding StepGuard::inspect_validation(double loss, std::int64_t step) {
  if (const std::string anomaly = watches_ ? loss_watch_.inspect_validation(loss) : ""; !anomaly.empty())
    return act_on_anomaly(fmt::format("step {}: {}", step, anomaly));
  if (std::isfinite(loss)) return {};
  return {
      StepStatus::applied,
      fmt::format("step {}: the validation loss is {}; `lockstep check --data` finds numbers in the data that are not "
                  "finite",
                  step, loss)};
}

void StepGuard::describe_state(StateFields& fields) {
  bool scales = scales_;
  fields.flag("scales_loss", scales);
  const LossScaler fresh = scaler_;
  scaler_.describe_state(fields);
  if (!scales) scaler_ = fresh;  // what the checkpoint has of it says nothing
  loss_watch_.describe_state(fields);
  if (fields.has("loss_was_nonfinite"))
    fields.flag("loss_was_nonfinite", loss_was_nonfinite_);  // not before version 0.2
}

}  // namespace lockstep
