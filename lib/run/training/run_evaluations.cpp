// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_evaluations.hpp"

#include <cmath>

#include "base/log.hpp"
#include "run/monitor/summary.hpp"

namespace lockstep {

RunEvaluations::RunEvaluations(const PreparedRun& prepared, EvaluationState& state, const DataPosition& position,
                               Progress& progress, RunOwner* owner)
    : comm_(prepared.comm),
      data_(prepared.data),
      trainer_(prepared.trainer()),
      state_(state),
      position_(position),
      progress_(progress),
      owner_(owner),
      interval_(prepared.config.run.evaluation_interval()),
      selection_(prepared.config.selection()) {}

bool RunEvaluations::has_come(const CompletedSteps& steps) const {
  if (interval_.count == 0 || !data_.validation) return false;
  return interval_.in_steps ? steps.have_come_to(interval_.count) : steps.have_ended(interval_.count);
}

bool RunEvaluations::is_due(const CompletedSteps& steps) const {
  if (steps.last == 0 || state_.evaluated_step == steps.last) return false;
  return steps.is_common && (state_.owes_evaluation || has_come(steps));
}

std::optional<Metrics> RunEvaluations::evaluate(const Dataset& data, const Interruption& interruption) {
  // Ranks are asked about twice a second: a batch takes less time than the longest step.
  constexpr double asks_every = 0.5;
  const double longest = comm_.all_reduce_max(interruption.longest_step);
  const std::int64_t batches = longest > 0 ? 1 + static_cast<std::int64_t>(asks_every / longest) : 1;
  return trainer_.evaluate(data, comm_, [&, done = std::int64_t{0}]() mutable {
    return ++done % batches == 0 && comm_.any_rank(interruption.is_wanted());
  });
}

std::optional<StepOutcome> RunEvaluations::validate(const Interruption& interruption) {
  const std::optional<Metrics> result = evaluate(*data_.validation, interruption);
  if (!result) return std::nullopt;
  const Metrics& metrics = validation_.emplace(*result);
  const std::int64_t step = trainer_.steps();
  StepOutcome outcome = trainer_.inspect_validation(metrics);
  if (outcome.status == StepOutcome::Status::fatal || outcome.status == StepOutcome::Status::rollback) return outcome;
  if (!outcome.message.empty()) warn("{}", outcome.message);
  // If the checkpoint of this step holds the result already, so do the curves.
  const bool again = state_.evaluated_step == step;
  state_.evaluated_step = step;
  state_.owes_evaluation = false;
  progress_.log_evaluation("validation", step, position_.epoch(), metrics, !again);
  if (!again) among_the_best_ = selection_.inspect(step, metrics);
  if (owner_ && owner_->ends_after(step, metrics) && !selection_.ends_run()) ended_by_owner_ = true;
  return outcome;
}

bool RunEvaluations::test(const Interruption& interruption) {
  test_ = evaluate(*data_.test, interruption);
  if (test_) progress_.log_evaluation("test", trainer_.steps(), position_.epoch(), *test_, true);
  return test_.has_value();
}

EvaluationResults RunEvaluations::results() const {
  return {.validation = validation_,
          .test = test_,
          .best = selection_.best(),
          .has_target = selection_.has_target(),
          .steps_to_target = selection_.steps_to_target()};
}

}  // namespace lockstep
