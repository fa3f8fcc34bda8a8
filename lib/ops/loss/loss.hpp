// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// A batch's contribution to loss and accuracy: doubles in device memory, summed over ranks before they are
/// divided. A row is a vector of outputs: one for each example, or one for each position of a sequence or image.
struct LossSums {
  double loss;     ///< sum over examples of the mean over their rows
  double correct;  ///< sum over examples of the share of rows whose largest output is the target's; 0 for values
  double weight;   ///< sum over rows of their weight in the mean loss: 1, or the weight of their class
  double counted;  ///< number of rows that are not ignored
};
inline constexpr std::int64_t loss_sum_count = sizeof(LossSums) / sizeof(double);

/// The divisor of gradients of a sum over examples of means over their rows, `positions` each, if the rows have this
/// total weight. It is the number of examples if each row has weight 1, or if no row counts.
KOKKOS_INLINE_FUNCTION double loss_divisor(double weight, std::int64_t positions, std::int64_t examples) {
  return weight > 0 ? weight / static_cast<double>(positions) : static_cast<double>(examples);
}

/// A factor of a loss's gradients: a number, or one that kernels read from device memory.
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

/// How class targets are interpreted.
struct ClassTargets {
  double label_smoothing = 0;  ///< share of each target that is spread over all classes
  /// f64 [K], the weight of a target of each class; empty: 1 each. Sums of weights over a batch must be exact.
  Tensor class_weights{};
  double total_weight = 0;  ///< sum of class_weights
  /// Targets of this class number do not count, and need not be a class; -1: none is ignored.
  std::int64_t ignored = -1;
};

/// Targets that each count only in part, together with another target of the same example (mixup and cutmix).
struct MixedTargets {
  Tensor others{};  ///< i32 [n]: the other targets; empty: targets are not mixed
  Tensor shares{};  ///< f64 [n]: the share of the example's own target
};

/// Softmax and cross entropy in one pass over the logits: sums −Σ_k q_k log p_k, where q_k = w_k ((1−ε)·onehot_k + ε/K)
/// (label smoothing, Szegedy et al. 2016; PyTorch's formula, whose reduction "mean" divides by Σ w_target, here
/// sums.weight). Stores the gradient of the *sum* over examples, p Σ q − q, times `gradient_scale`. logits, dlogits:
/// [n, K]; targets: i32 [n]. For sequences and images they are [n, …, K] and [n, …], and the loss of an example is the
/// mean over its rows. dlogits may be empty (evaluation), or the memory of the logits. `per_row`, f64 [rows, 2], is
/// scratch. Adds to `sums` (LossSums). With mixed targets, which exclude weights and ignored targets, onehot is that of
/// both targets by their shares.
void softmax_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row, const Tensor& sums,
                           const GradientFactor& gradient_scale = 1, const MixedTargets& mixed = {});

/// The first half of softmax_cross_entropy, for any rows: leaves loss and correct of each row in `per_row`, and stores
/// the gradient of the sum over *rows*, times `gradient_scale`. logits, dlogits: [rows, K]; targets: i32 [rows].
void cross_entropy_of_rows(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row,
                           const GradientFactor& gradient_scale, const MixedTargets& mixed = {});
/// The second half of softmax_cross_entropy: adds n examples to `sums` from `per_row`, which it overwrites.
void add_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                       const Tensor& per_row, const Tensor& sums);

enum class ValueLoss { squared_error, absolute_error, huber, binary_cross_entropy, relative_l2 };

/// The deviation of outputs from values, averaged over an example's K outputs and summed over examples; e = y − t:
///  - squared_error e², absolute_error |e|;
///  - huber: e²/2 where |e| ≤ δ, else δ (|e| − δ/2) (Huber 1964; PyTorch's HuberLoss);
///  - binary_cross_entropy of logits y and probabilities t: max(y, 0) − y t + log(1 + exp(−|y|));
///  - relative_l2: ‖e‖ / (‖t‖ + 10⁻⁸) of the whole example (LpLoss of Li et al. 2021).
/// If doutputs is not empty, it receives the gradient of the sum, times `gradient_scale`; it may be the memory of the
/// outputs. outputs, doutputs: [n, …, K]; targets: the same shape, of master_dtype; per_row and sums as in
/// softmax_cross_entropy.
void value_loss(const ExecSpace& space, ValueLoss kind, double delta, const Tensor& outputs, const Tensor& targets,
                const Tensor& doutputs, const Tensor& per_row, const Tensor& sums,
                const GradientFactor& gradient_scale = 1);

// How every loss adds up the numbers that its kernel computes for each row. Pointers are to device memory.

/// Adds loss and correct of n examples to `sums` (LossSums). Each example has them in the first of its `stride` rows of
/// per_row. On CPUs one thread adds them in order, so that the result does not depend on the number of threads.
void add_examples(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_row, double* sums);

/// Averages loss and correct over the rows of each example, and adds them as add_examples does. Leaves the mean in the
/// example's first row.
void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t rows, double* per_row, double* sums);

/// Adds this many rows to `sums` (LossSums); all have weight 1.
void count_rows(const ExecSpace& space, std::int64_t rows, double* sums);

/// cross_entropy_of_rows for class weights, ignored classes or mixed targets.
void weighted_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                            const Tensor& targets, const MixedTargets& mixed, const Tensor& dlogits,
                            const Tensor& per_row, const GradientFactor& gradient_scale);

/// Adds weight and number of the rows that count, of n examples, to `sums` (LossSums). Weights must have so few bits
/// that their sums are exact; the order of additions then does not matter.
void add_row_weights(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                     const Tensor& sums);

/// y_j = e^(x_j − max) / Σ_k e^(x_k − max) over the last extent; y may be x.
void softmax_forward(const ExecSpace& space, const Tensor& x, const Tensor& y);
/// dx_j = y_j·(dy_j − Σ_k dy_k·y_k); dx may be dy.
void softmax_backward(const ExecSpace& space, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace lockstep
