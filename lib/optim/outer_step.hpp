// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

// Outer steps of replicas that have trained independently for a while. All tensors are flat, f32 or f64, and of equal
// length. A difference is relative to x₀, the parameters that all replicas started from.
namespace lockstep {

/// difference = weight · (from − to).
void weighted_difference(const ExecSpace& space, double weight, const Tensor& from, const Tensor& to,
                         const Tensor& difference);

/// A step along the averaged difference Δ = x₀ − x̄, with a velocity b that accumulates S (or Δ itself):
///   b ← μ b + s S,   x₀ ← x₀ − (η (d Δ + ν b)).
/// Special cases:
///  - the average: μ = s = ν = 0 and η = d = 1;
///  - SlowMo (Wang, Tantia, Ballas & Rabbat 2020), u ← β u + Δ / γ, x ← x₀ − α γ u, where γ is the mean learning
///    rate of the replicas' steps since x₀ (in the paper the rate is constant between two outer steps):
///    μ = β, s = 1 / γ, η = α γ, d = 0, ν = 1;
///  - Nesterov's momentum as in PyTorch's SGD(nesterov=True), with Δ as the gradient (DiLoCo, Douillard et al. 2023),
///    b ← μ b + Δ, θ ← θ₀ − η (Δ + μ b): s = d = 1, ν = μ;
///  - delayed Nesterov (Liu et al. 2024, algorithm 3, with c = 0) in every N-th step, where S is the sum of the last N
///    differences: s = d = 1 / N, ν = μ. Its other steps have no velocity, and d = 1 / N.
struct OuterStep {
  double decay = 0;          ///< μ
  double gain = 0;           ///< s
  double learning_rate = 1;  ///< η
  double direct = 1;         ///< d
  double by_velocity = 0;    ///< ν
};
/// `velocity`: b; empty if there is none. `values`: x₀, replaced by the new parameters. `gathered`: S; empty: Δ.
void outer_step(const ExecSpace& space, const OuterStep& step, const Tensor& difference, const Tensor& velocity,
                const Tensor& values, const Tensor& gathered = {});

/// Exchanges `values` and `others`.
void swap_numbers(const ExecSpace& space, const Tensor& values, const Tensor& others);
/// values ← values − pull · (values − centre): the step of a replica in EASGD (Zhang, Choromanska & LeCun 2015).
void pull_towards(const ExecSpace& space, double pull, const Tensor& centre, const Tensor& values);

}  // namespace lockstep
