// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

// Outer steps of replicas that have trained independently for a while. All tensors are flat, f32 or f64, and of equal
// length. A difference is relative to x₀, the parameters that all replicas started from.
namespace lockstep {

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

}  // namespace lockstep
