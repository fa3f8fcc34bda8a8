// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

// Gradients by parameters that have changed since. All tensors are flat, of f32 or f64, and as long as each other.
namespace lockstep {

/// gradient ← gradient / staleness: Zhang, Gupta, Lian & Liu 2016 divide the learning rate by it.
void divide_by_staleness(const ExecSpace& space, std::int64_t staleness, const Tensor& gradient);

/// How Zheng, Meng, Wang, Chen, Yu, Ma & Liu 2017 (DC-ASGD) estimate the gradient by parameters w from that, g, by the
/// parameters w_bak which its worker has read: g + λ g ⊙ g ⊙ (w − w_bak), where the square stands for the Hessian's
/// diagonal. `adaptive`: with λ / √(m + 1e-7) in the place of λ, m ← 0.95 m + 0.05 g ⊙ g.
struct DelayCompensation {
  double lambda = 0;
  bool adaptive = false;
};
/// `gradient`: the sum of those of `examples` examples, of whose mean the formula is; `mean_square`: m, empty unless
/// adaptive; w and w_bak may be the same.
void compensate_delay(const ExecSpace& space, const DelayCompensation& compensation, std::int64_t examples,
                      const Tensor& now, const Tensor& read, const Tensor& mean_square, const Tensor& gradient);

}  // namespace lockstep
