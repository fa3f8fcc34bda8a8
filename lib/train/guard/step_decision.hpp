// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/dtype.hpp"
#include "ops/loss/loss.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/update_scalars.hpp"

// A kernel decides the outcome of a step, in the memory where its gradients are. So no update has to wait for the
// host, which learns of the decision later.
namespace lockstep {

/// Lies in device memory; the host has copies.
struct StepDecision {
  enum class Outcome : std::int32_t {
    applied,
    suspicious,      ///< applied although its loss is not finite, because its gradients are
    overflow,        ///< left out because scaled gradients are not finite
    at_floor,        ///< cannot be done: scaled gradients are not finite even at the smallest loss scale
    lost,            ///< cannot be done: parameters would not be finite, or the loss is not finite twice in a row
    bad_parameters,  ///< cannot be done: the update before it has left parameters that are not finite
    empty,           ///< left out: it has no examples
    halted,          ///< follows a step that cannot be done, and changes nothing
  };

  // Carried from step to step:
  LossScaleRule::State scaler;
  std::int64_t applied = 0;             ///< applied steps; with counts_missed, also those left out
  std::int32_t has_moved = 0;           ///< whether any step has been applied
  std::int32_t loss_was_nonfinite = 0;  ///< of the last step that had a loss; not set with loss_watch
  std::int32_t halted = 0;
  // About the last step:
  std::int64_t steps_before = 0;  ///< steps done in the run before this one, skipped ones included
  Outcome outcome = Outcome::applied;
  std::int32_t lost_before = 0;        ///< the loss before it was not finite
  LossScaleRule::State scaler_before;  ///< before this step
  double loss_factor = 1;              ///< what the loss was multiplied with
  double mean_loss = 0;                ///< over the examples of all ranks
  std::int32_t has_loss = 1;           ///< 0: no target counts, and mean_loss is 0
  double gradient_factor = 1;          ///< from the summed gradients to the gradient of the mean loss
  UpdateScalars scalars;               ///< of its update
};

/// Loss of a step and weight of its targets, summed over all ranks: as numbers or, on one rank, in device memory.
struct SummedLoss {
  double loss = 0, weight = 0;
  const LossSums* in_memory = nullptr;  ///< null: `loss` and `weight` hold
  std::int64_t positions = 1, examples = 0;

  KOKKOS_INLINE_FUNCTION double weight_sum() const { return in_memory ? in_memory->weight : weight; }
  KOKKOS_INLINE_FUNCTION double sum() const { return in_memory ? in_memory->loss : loss; }
  KOKKOS_INLINE_FUNCTION double divisor() const { return loss_divisor(weight_sum(), positions, examples); }
  /// Mean loss; 0 if no row counts.
  KOKKOS_INLINE_FUNCTION double mean() const { return weight_sum() > 0 ? sum() / divisor() : 0; }
  /// Whether the gradients are applied: yes if any row has weight. With no weight and a loss sum of 0, they can only be
  /// errors that parallel.compress has kept from earlier steps: yes. With no weight and another sum, they result from
  /// label smoothing alone, of which a mean over no weight has nothing: no.
  KOKKOS_INLINE_FUNCTION bool has_gradient() const { return weight_sum() > 0 || (examples > 0 && sum() == 0); }
};

/// What a step is judged by. Pointers are into device memory.
struct DecisionInputs {
  SummedLoss loss;
  bool watched = false;         ///< the host inspects the loss itself before the update (loss_watch)
  bool bad_parameters = false;  ///< as other ranks have voted
  bool counts_missed = false;   ///< the step counts as applied even if it is left out
  const std::int32_t* nonfinite_parameters = nullptr;  ///< Optimizer::nonfinite
  const double* nonfinite_gradients = nullptr;         ///< f64 [1]: their number; null: the loss is not scaled
  LossScaleRule scaling;
  const double* lost_gradients = nullptr;  ///< f64 [tensors]: their numbers, if the loss is not finite
  std::int64_t tensors = 0;
};

/// Coefficients of the optimizer in consecutive steps of a run.
struct CoefficientTable {
  static constexpr std::int64_t size = 256;

  std::int64_t first = 0;   ///< applied steps before those of the table
  std::int64_t before = 0;  ///< applied steps of the run that this one has branched from
  StepCoefficients of_step[size] = {};
};

/// Factors of an update. Pointers are into device memory.
struct UpdateOptions {
  const CoefficientTable* coefficients = nullptr;
  const double* square = nullptr;  ///< f64 [1]: sum of squares of the summed gradients; null: their norm is not limited
  double clip_norm = 0;
};

/// Begins a step over `examples`, after `steps` others, and sets the factor of its loss. A scaled loss is a mean
/// already, so that gradients in 16 bits are the same numbers whatever the batch.
void begin_decision(const ExecSpace& space, bool scales, std::int64_t examples, std::int64_t steps,
                    StepDecision* decision);
/// Decides the outcome of the step. `decision` holds that of the step before, and then that of this step.
void decide_step(const ExecSpace& space, const DecisionInputs& inputs, const UpdateOptions& options,
                 StepDecision* decision);

}  // namespace lockstep
