// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/step_judgement.hpp"

namespace lockstep {
namespace {

/// Whether a gradient is not finite, of a step whose loss is not.
KOKKOS_INLINE_FUNCTION bool loses_gradients(const Evidence& evidence) {
  for (std::int64_t i = 0; i < evidence.tensors; ++i)
    if (evidence.lost_gradients[i] > 0) return true;
  return false;
}

KOKKOS_INLINE_FUNCTION Verdict verdict_of(const Evidence& evidence, StepJudgement& judgement) {
  if (evidence.bad_parameters || *evidence.nonfinite_parameters != 0) return Verdict::bad_parameters;
  if (evidence.loss.examples == 0) return Verdict::empty;
  if (evidence.nonfinite_gradients && *evidence.nonfinite_gradients > 0)
    return evidence.scaling.at_floor(judgement.scaler) ? Verdict::at_floor : Verdict::overflow;
  if (evidence.watched || judgement.has_loss == 0) return Verdict::applied;
  const bool lost = is_nonfinite(judgement.mean_loss);
  judgement.lost_before = judgement.loss_was_nonfinite;
  judgement.loss_was_nonfinite = lost ? 1 : 0;
  if (!lost) return Verdict::applied;
  return judgement.lost_before != 0 || loses_gradients(evidence) ? Verdict::lost : Verdict::suspicious;
}

KOKKOS_INLINE_FUNCTION void judge(const Evidence& evidence, const UpdateOptions& options, StepJudgement& judgement) {
  StepScalars& scalars = judgement.scalars;
  scalars.left_out = 1;
  scalars.nonfinite_before = *evidence.nonfinite_parameters;
  if (judgement.halted != 0) {
    judgement.verdict = Verdict::halted;
    return;
  }
  judgement.mean_loss = evidence.loss.mean();
  judgement.has_loss = evidence.loss.rows() > 0 ? 1 : 0;
  judgement.gradient_factor = evidence.loss.has_gradient() ? 1 / (evidence.loss.divisor() * judgement.loss_factor) : 0;
  judgement.scaler_before = judgement.scaler;
  judgement.verdict = verdict_of(evidence, judgement);
  switch (judgement.verdict) {
    case Verdict::applied:
    case Verdict::suspicious:
      scalars.left_out = 0;
      scalars.first = judgement.has_moved == 0 && options.coefficients->before == 0 ? 1 : 0;
      judgement.has_moved = 1;
      scalars.coefficients = options.coefficients->of_step[judgement.applied - options.coefficients->first];
      scalars.gradient_scale = clipped_gradient_scale(judgement.gradient_factor, options.clip_norm,
                                                      options.square ? *options.square : 0);
      ++judgement.applied;
      if (evidence.nonfinite_gradients) judgement.scaler = evidence.scaling.after_good_step(judgement.scaler);
      break;
    case Verdict::overflow:
      judgement.scaler = evidence.scaling.after_overflow(judgement.scaler);
      judgement.applied += evidence.is_local ? 1 : 0;
      break;
    case Verdict::empty: judgement.applied += 1; break;
    default: judgement.halted = 1;
  }
}

}  // namespace

void begin_judgement(const ExecSpace& space, bool scales, std::int64_t examples, std::int64_t steps,
                     StepJudgement* judgement) {
  Kokkos::parallel_for(
      "lockstep::step_judgement::begin", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        judgement->steps_before = steps;
        if (judgement->halted != 0) return;
        judgement->loss_factor = scales ? static_cast<double>(judgement->scaler.scale) / static_cast<double>(examples)
                                        : 1.0;
      });
}

void judge_step(const ExecSpace& space, const Evidence& evidence, const UpdateOptions& options,
                StepJudgement* judgement) {
  Kokkos::parallel_for(
      "lockstep::step_judgement::judge", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { judge(evidence, options, *judgement); });
}

}  // namespace lockstep
