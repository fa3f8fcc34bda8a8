// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/step_decision.hpp"

namespace lockstep {
namespace {

/// Whether a step whose loss is not finite has a gradient that is not.
KOKKOS_INLINE_FUNCTION bool loses_gradients(const DecisionInputs& inputs) {
  for (std::int64_t i = 0; i < inputs.tensors; ++i)
    if (inputs.lost_gradients[i] > 0) return true;
  return false;
}

KOKKOS_INLINE_FUNCTION StepDecision::Outcome outcome_of(const DecisionInputs& inputs, StepDecision& decision) {
  if (inputs.bad_parameters || *inputs.nonfinite_parameters != 0) return StepDecision::Outcome::bad_parameters;
  if (inputs.loss.examples == 0) return StepDecision::Outcome::empty;
  if (inputs.nonfinite_gradients && *inputs.nonfinite_gradients > 0)
    return inputs.scaling.at_floor(decision.scaler) ? StepDecision::Outcome::at_floor : StepDecision::Outcome::overflow;
  if (inputs.watched || decision.has_loss == 0) return StepDecision::Outcome::applied;
  const bool lost = is_nonfinite(decision.mean_loss);
  decision.lost_before = decision.loss_was_nonfinite;
  decision.loss_was_nonfinite = lost ? 1 : 0;
  if (!lost) return StepDecision::Outcome::applied;
  return decision.lost_before != 0 || loses_gradients(inputs) ? StepDecision::Outcome::lost
                                                              : StepDecision::Outcome::suspicious;
}

KOKKOS_INLINE_FUNCTION void judge(const DecisionInputs& inputs, const UpdateOptions& options, StepDecision& decision) {
  UpdateScalars& scalars = decision.scalars;
  scalars.left_out = 1;
  scalars.nonfinite_before = *inputs.nonfinite_parameters;
  if (decision.halted != 0) {
    decision.outcome = StepDecision::Outcome::halted;
    return;
  }
  decision.mean_loss = inputs.loss.mean();
  decision.has_loss = inputs.loss.weight_sum() > 0 ? 1 : 0;
  decision.gradient_factor = inputs.loss.has_gradient() ? 1 / (inputs.loss.divisor() * decision.loss_factor) : 0;
  decision.scaler_before = decision.scaler;
  decision.outcome = outcome_of(inputs, decision);
  switch (decision.outcome) {
    case StepDecision::Outcome::applied:
    case StepDecision::Outcome::suspicious:
      scalars.left_out = 0;
      scalars.first = decision.has_moved == 0 && options.coefficients->before == 0 ? 1 : 0;
      decision.has_moved = 1;
      scalars.coefficients = options.coefficients->of_step[decision.applied - options.coefficients->first];
      scalars.gradient_scale = clipped_gradient_scale(decision.gradient_factor, options.clip_norm,
                                                      options.square ? *options.square : 0);
      ++decision.applied;
      if (inputs.nonfinite_gradients) decision.scaler = inputs.scaling.after_good_step(decision.scaler);
      break;
    case StepDecision::Outcome::overflow:
      decision.scaler = inputs.scaling.after_overflow(decision.scaler);
      decision.applied += inputs.counts_missed ? 1 : 0;
      break;
    case StepDecision::Outcome::empty: decision.applied += inputs.counts_missed ? 1 : 0; break;
    default: decision.halted = 1;
  }
}

}  // namespace

void begin_decision(const ExecSpace& space, bool scales, std::int64_t examples, std::int64_t steps,
                    StepDecision* decision) {
  Kokkos::parallel_for(
      "lockstep::step_decision::begin", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        decision->steps_before = steps;
        if (decision->halted != 0) return;
        decision->loss_factor = scales ? static_cast<double>(decision->scaler.scale) / static_cast<double>(examples)
                                       : 1.0;
      });
}

void decide_step(const ExecSpace& space, const DecisionInputs& inputs, const UpdateOptions& options,
                 StepDecision* decision) {
  Kokkos::parallel_for(
      "lockstep::step_decision::judge", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { judge(inputs, options, *decision); });
}

}  // namespace lockstep
