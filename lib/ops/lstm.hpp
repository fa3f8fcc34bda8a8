// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// One step t of long short-term memory (Hochreiter & Schmidhuber, 1997; Gers et al., 2000, for f) in PyTorch's form:
//   i, f, o = sigmoid(…), g = tanh(…) of x_t·W_ihᵀ + b_ih + h_{t−1}·W_hhᵀ + b_hh,
//   c_t = f∘c_{t−1} + i∘g,  h_t = o∘tanh(c_t).
// gates [n, T, 4u] are in the order i, f, g, o; cells [n, T, u] of master_dtype; what belongs to one step stands
// in one piece, [n, …], for the recurrent product.

/// gates hold x·W_ihᵀ + b_ih of all steps; those of step t become their activations. `recurrent` [n, 4u] is
/// h_{t−1}·W_hhᵀ, empty at t = 0; bias [4u] is b_hh. Writes cells and y [n, T, u] at t, and h [n, u].
void lstm_forward_step(const ExecSpace& space, std::int64_t t, const Tensor& gates, const Tensor& recurrent,
                       const Tensor& bias, const Tensor& cells, const Tensor& y, const Tensor& h);

/// dh_t is dy at t plus `recurrent` [n, u] (dgates_{t+1}·W_hh, empty at t = T − 1); dcell [n, u] of master_dtype
/// goes from step to step (not read at t = T − 1). Writes dgates [n, T, 4u] at t (before the activations), and
/// dgates_step [n, 4u].
void lstm_backward_step(const ExecSpace& space, std::int64_t t, const Tensor& gates, const Tensor& cells,
                        const Tensor& dy, const Tensor& recurrent, const Tensor& dcell, const Tensor& dgates,
                        const Tensor& dgates_step);

/// before [n, T, u] = y of one step earlier, zeros at t = 0.
void lstm_shift(const ExecSpace& space, const Tensor& y, const Tensor& before);

}  // namespace lockstep
