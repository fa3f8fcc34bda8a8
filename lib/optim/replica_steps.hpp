// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

// Steps of replicas or workers that have trained independently for a while. All tensors are flat, f32 or f64, and of
// equal length.
namespace lockstep {

// Outer steps. A difference is relative to x₀, the parameters that all replicas started from.

/// difference = weight · (from − to).
void weighted_difference(const ExecSpace& space, double weight, const Tensor& from, const Tensor& to,
                         const Tensor& difference);

/// A step along the averaged difference Δ = share · difference = x₀ − x̄. Without a velocity it is x₀ ← x₀ − η Δ: the
/// average if η = 1. With one it is Nesterov's momentum as in PyTorch's SGD(nesterov=True), with Δ as the gradient
/// (DiLoCo, Douillard et al. 2023): b ← μ b + Δ, x₀ ← x₀ − η (Δ + μ b).
struct OuterStep {
  double share = 1;          ///< Δ as a multiple of the difference
  double learning_rate = 1;  ///< η
  double momentum = 0;       ///< μ
};
/// `velocity`: b; empty if there is none. `values`: x₀, replaced by the new parameters.
void outer_step(const ExecSpace& space, const OuterStep& step, const Tensor& difference, const Tensor& velocity,
                const Tensor& values);

/// Exchanges `values` and `others`.
void swap_numbers(const ExecSpace& space, const Tensor& values, const Tensor& others);

/// Adasum (Maleki et al. 2020) of two steps of one tensor: a ← (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b. Orthogonal
/// steps add up, and equal steps are averaged; if one is zero, the result is the other. Both tensors are flat, f32 or
/// f64, and of equal length. Products and norms are summed in f64, in an order that does not depend on the number of
/// threads. `scratch`: f64 [adasum_scratch(a.count())].
void adasum(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& scratch);
std::int64_t adasum_scratch(std::int64_t count);

// Corrections of stale gradients, whose parameters have changed since they were read:

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
