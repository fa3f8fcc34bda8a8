// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// What a batch adds to loss and accuracy; doubles in the step's memory, summed over ranks before they are divided. A
/// row is a vector of outputs: one an example, or one for each position of a sequence or picture.
struct LossSums {
  double loss;     ///< sum over examples of the mean over their rows
  double correct;  ///< likewise: 1 for a row whose largest output is the target's; 0 of values
  double weight;   ///< sum over rows of what each counts in the mean loss: 1, or the weight of its class
  double counted;  ///< rows that are not ignored
};
inline constexpr std::int64_t loss_sum_count = sizeof(LossSums) / sizeof(double);

/// By what gradients of a sum over examples of means over their rows, `positions` each, are divided, where rows have
/// this weight in all: the number of examples, where each row counts 1, or where none counts.
KOKKOS_INLINE_FUNCTION double loss_divisor(double weight, std::int64_t positions, std::int64_t examples) {
  return weight > 0 ? weight / static_cast<double>(positions) : static_cast<double>(examples);
}

/// What gradients of a loss are multiplied with: a number, or one that kernels find in the step's memory.
struct GradientFactor {
  double number = 1;
  const double* in_memory = nullptr;
  double divisor = 1;

  GradientFactor(double factor) : number(factor) {}
  explicit GradientFactor(const double* factor) : in_memory(factor) {}
  GradientFactor over(std::int64_t count) const {
    GradientFactor part = *this;
    part.divisor *= static_cast<double>(count);
    return part;
  }
  KOKKOS_INLINE_FUNCTION double value() const { return (in_memory ? *in_memory : number) / divisor; }
};

/// What class targets mean.
struct ClassTargets {
  double label_smoothing = 0;  ///< share spread over all classes
  Tensor class_weights{};   ///< f64 [K], how much a target of each class counts; empty: 1. Sums over a batch are to be
                            ///< exact
  double total_weight = 0;  ///< their sum
  std::int64_t ignored = -1;  ///< targets of this number count nothing, and need not be a class; -1: there are none
};

/// Targets of which each counts only in part, beside another one of the same example: mixup and cutmix.
struct MixedTargets {
  Tensor others{};  ///< i32 [n]; empty: there are none
  Tensor shares{};  ///< f64 [n], of the example's own target
};

/// Softmax and cross entropy in one pass over the logits: sums −Σ_k q_k log p_k, q_k = w_k ((1−ε)·onehot_k + ε/K)
/// (label smoothing, Szegedy et al. 2016; PyTorch's formula, whose reduction "mean" divides by Σ w_target,
/// sums.weight), and stores the gradient of the *sum* over examples, p Σ q − q, times `gradient_scale`. logits, dlogits
/// [n, K]; targets i32 [n]. Or sequences and pictures, [n, …, K] and [n, …]: the loss of an example is the mean over
/// its rows. dlogits may be empty (evaluation), and may be the memory of the logits. `per_row` f64 [rows, 2] is
/// scratch; adds to `sums` (LossSums). Where targets are mixed (which does not go with weights and ignored ones),
/// onehot is that of both, by their shares.
void softmax_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row, const Tensor& sums,
                           const GradientFactor& gradient_scale = 1, const MixedTargets& mixed = {});

/// The first half of softmax_cross_entropy, for any rows: leaves loss and correct of each in `per_row`, and stores the
/// gradient of the sum over *rows*, times `gradient_scale`. logits, dlogits [rows, K]; targets i32 [rows].
void cross_entropy_of_rows(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row,
                           const GradientFactor& gradient_scale, const MixedTargets& mixed = {});
/// The second half: adds n examples to `sums`, from what the first has left in `per_row`, which is used up.
void add_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                       const Tensor& per_row, const Tensor& sums);

enum class ValueLoss { squared_error, absolute_error, huber, binary_cross_entropy, relative_l2 };

/// How far outputs are from values, mean over an example's K outputs, summed over examples; e = y − t:
///  - squared_error e², absolute_error |e|;
///  - huber: e²/2 where |e| ≤ δ, else δ (|e| − δ/2) (Huber 1964; PyTorch's HuberLoss);
///  - binary_cross_entropy of logits y and probabilities t: max(y, 0) − y t + log(1 + exp(−|y|));
///  - relative_l2: ‖e‖ / (‖t‖ + 10⁻⁸), of the whole example (LpLoss of Li et al. 2021).
/// Stores the gradient of the sum, times `gradient_scale`, where doutputs is not empty; it may be the memory of the
/// outputs. outputs, doutputs [n, …, K]; targets of the same shape, of master_dtype; per_row and sums as above.
void value_loss(const ExecSpace& space, ValueLoss kind, double delta, const Tensor& outputs, const Tensor& targets,
                const Tensor& doutputs, const Tensor& per_row, const Tensor& sums,
                const GradientFactor& gradient_scale = 1);

}  // namespace lockstep
