// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

// Corrections of stale gradients, whose parameters have changed since they were read. All tensors are flat, f32 or f64,
// and of equal length.
namespace lockstep {

/// gradient ← gradient / staleness, as Zhang, Gupta, Lian & Liu 2016 divide the learning rate.
void divide_by_staleness(const ExecSpace& space, std::int64_t staleness, const Tensor& gradient);

/// Zheng, Meng, Wang, Chen, Yu, Ma & Liu 2017 (DC-ASGD) estimate the gradient at parameters w from the gradient g at
/// the parameters w_bak that its worker has read: g + λ g ⊙ g ⊙ (w − w_bak), where g ⊙ g approximates the Hessian's
/// diagonal. `adaptive`: λ is replaced by λ / √(m + 1e-7), with m ← 0.95 m + 0.05 g ⊙ g.
struct DelayCompensation {
  double lambda = 0;
  bool adaptive = false;
};
/// `gradient` is the sum over `examples` examples; the formula applies to their mean. `now`: w; `read`: w_bak, which
/// may be the same tensor. `mean_square`: m; empty unless adaptive.
void compensate_delay(const ExecSpace& space, const DelayCompensation& compensation, std::int64_t examples,
                      const Tensor& now, const Tensor& read, const Tensor& mean_square, const Tensor& gradient);

}  // namespace lockstep
