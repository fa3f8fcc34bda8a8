// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// What a batch adds to the metrics; doubles in the step's memory, summed over ranks before they are divided.
struct LossSums {
  double loss;     ///< sum over examples
  double correct;  ///< examples whose largest logit is the target's (of a sequence: the fraction); 0 for regressions
  double weight;   ///< sum over examples (of sequences: positions) of what each counts in the mean loss: 1, or its class' weight
};

/// Softmax and cross entropy in one pass over the logits: sums −Σ_k q_k log p_k, q = (1−ε)·onehot + ε/K
/// (label smoothing, Szegedy et al. 2016; PyTorch's formula), and stores the gradient of the *sum*
/// over examples, p − q, times `gradient_scale`. logits, dlogits [n, K]; targets i32 [n]. Or sequences,
/// [n, T, K] and [n, T]: the loss of an example is the mean over its T positions. dlogits may be
/// empty (evaluation). `per_example` [n·T, 2] f64 is scratch; adds to `sums` (f64 [3]: LossSums).
void softmax_cross_entropy(const ExecSpace& space, double label_smoothing, const Tensor& logits, const Tensor& targets,
                           const Tensor& dlogits, const Tensor& per_example, const Tensor& sums,
                           double gradient_scale = 1);

/// Cross entropy as above, where the target's class c counts w_c times: sums −Σ_k q_k log p_k, q = w_k · ((1−ε)·onehot + ε/K)
/// (PyTorch's `weight`; its reduction "mean" divides by `sums.weight`, Σ w_target). class_weights f64 [K], whose sum is
/// `total_weight`; they are to be such that sums of them over a batch are exact.
void weighted_cross_entropy(const ExecSpace& space, double label_smoothing, const Tensor& class_weights,
                            double total_weight, const Tensor& logits, const Tensor& targets, const Tensor& dlogits,
                            const Tensor& per_example, const Tensor& sums, double gradient_scale = 1);

/// Mean over the K outputs, summed over examples: Σ_n 1/K Σ_k (y − t)²; gradient of it 2 (y − t) / K,
/// times `gradient_scale`. outputs, doutputs [n, K], targets [n, K] of master_dtype.
void mean_squared_error(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                        const Tensor& per_example, const Tensor& sums, double gradient_scale = 1);

}  // namespace lockstep
