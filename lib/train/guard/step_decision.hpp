// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/finite.hpp"
#include "ops/loss.hpp"
#include "optim/gradient_scale.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/step_scalars.hpp"

// What becomes of a step is decided where its gradients are, by a kernel: so no update has to wait for the host, which
// hears of it later.
namespace lockstep {

enum class StepOutcome : std::int32_t {
  applied,
  suspicious,      ///< applied, though its loss is not finite: its gradients are
  overflow,        ///< left out: scaled gradients are not finite
  at_floor,        ///< cannot be done: nor are they at the smallest loss scale
  lost,            ///< cannot be done: parameters would not be finite, or the loss is not for the second time
  bad_parameters,  ///< cannot be done: the update before it has left some that are not finite
  empty,           ///< left out: its ranks have no examples
  halted,          ///< comes after one that cannot be done, and changes nothing
};

/// In the step's memory; the host has copies.
struct StepDecision {
  // From step to step:
  LossScaleRule::State scaler;
  std::int64_t applied = 0;             ///< steps; of those that some ranks do by themselves, all
  std::int32_t has_moved = 0;           ///< one of them was not left out
  std::int32_t loss_was_nonfinite = 0;  ///< of the last step that had one, where nobody else watches it
  std::int32_t halted = 0;
  // Of the last step:
  std::int64_t steps_before = 0;  ///< what was done in the run before it, steps that were skipped included
  StepOutcome outcome = StepOutcome::applied;
  std::int32_t lost_before = 0;        ///< the loss before it was not finite
  LossScaleRule::State scaler_before;  ///< as the step found it
  double loss_factor = 1;              ///< what its loss was multiplied with
  double mean_loss = 0;                ///< over the examples of all ranks
  std::int32_t has_loss = 1;           ///< 0: none of their targets counts, and mean_loss is 0
  double gradient_factor = 1;          ///< times the summed gradients is the gradient of the mean loss
  StepScalars scalars;                 ///< for its update
};

/// A step's loss and what it counts, summed over all ranks: numbers, or, on one rank, in the step's memory.
struct SummedLoss {
  double loss = 0, weight = 0;
  const LossSums* in_memory = nullptr;  ///< null: the numbers
  std::int64_t positions = 1, examples = 0;

  KOKKOS_INLINE_FUNCTION double weight_sum() const { return in_memory ? in_memory->weight : weight; }
  KOKKOS_INLINE_FUNCTION double sum() const { return in_memory ? in_memory->loss : loss; }
  KOKKOS_INLINE_FUNCTION double divisor() const { return loss_divisor(weight_sum(), positions, examples); }
  /// 0 where no row counts.
  KOKKOS_INLINE_FUNCTION double mean() const { return weight_sum() > 0 ? sum() / divisor() : 0; }
  /// Whether gradients count. Where no row does, they are 0, but for errors that parallel.compress has kept back from
  /// steps before; or, with a sum, they are those of label smoothing alone, which a mean over no weight has not.
  KOKKOS_INLINE_FUNCTION bool has_gradient() const { return weight_sum() > 0 || (examples > 0 && sum() == 0); }
};

/// What a step is judged by. Pointers are to the step's memory.
struct DecisionInputs {
  SummedLoss loss;
  bool watched = false;                                ///< the host inspects the loss itself, before the update
  bool bad_parameters = false;                         ///< as other ranks have said
  bool is_local = false;                               ///< of some ranks: it counts even where they leave it out
  const std::int32_t* nonfinite_parameters = nullptr;  ///< Optimizer::nonfinite
  const double* nonfinite_gradients = nullptr;         ///< how many; null: the loss is not scaled
  LossScaleRule scaling;
  const double* lost_gradients = nullptr;  ///< of each tensor, how many are not finite, where the loss is not
  std::int64_t tensors = 0;
};

/// What optimizers multiply with in some steps of a run.
struct CoefficientTable {
  static constexpr std::int64_t size = 256;

  std::int64_t first = 0;   ///< steps applied before those of the table
  std::int64_t before = 0;  ///< applied steps of the run that this one has branched from
  StepCoefficients of_step[size] = {};
};

/// What the update multiplies with. Pointers are to the step's memory.
struct UpdateOptions {
  const CoefficientTable* coefficients = nullptr;
  const double* square = nullptr;  ///< of the summed gradients, where their norm is limited
  double clip_norm = 0;
};

/// A step of `examples` begins, after `steps` others: what its loss is multiplied with. Scaled, it is a mean already,
/// so that 16 bits hold the same numbers whatever the batch.
void begin_decision(const ExecSpace& space, bool scales, std::int64_t examples, std::int64_t steps,
                    StepDecision* decision);
/// What becomes of it. The decision is that of the step before, and then of this one.
void decide_step(const ExecSpace& space, const DecisionInputs& inputs, const UpdateOptions& options,
                 StepDecision* decision);

}  // namespace lockstep
