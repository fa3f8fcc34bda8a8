// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// One time step of a recurrent layer in PyTorch's form. There are g·u gate values for each position: x·W_ihᵀ + b_ih of
// all time steps at once, [n, T, g·u], and h·W_hhᵀ of one time step, [n, g·u].
//   lstm (Hochreiter & Schmidhuber, 1997; Gers et al., 2000, for f), g = 4, with a cell state c:
//     i, f, o = sigmoid(…), g = tanh(…) of x_t·W_ihᵀ + b_ih + h_{t−1}·W_hhᵀ + b_hh, in the order i, f, g, o,
//     c_t = f∘c_{t−1} + i∘g,  h_t = o∘tanh(c_t).
//   gru (Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014), g = 3, in the order r, z, n:
//     r, z = sigmoid(…) of the same sums, n = tanh(x_t·W_inᵀ + b_in + r∘(h_{t−1}·W_hnᵀ + b_hn)),
//     h_t = (1 − z)∘n + z∘h_{t−1}.
enum class RecurrentCell { lstm, gru };

constexpr std::int64_t gates_of(RecurrentCell cell) { return cell == RecurrentCell::lstm ? 4 : 3; }

/// A time step of one direction.
struct RecurrentStep {
  std::int64_t t;       ///< position in the sequence
  std::int64_t before;  ///< position of the previous time step, −1 if there is none
  std::int64_t column;  ///< first column of the direction's units in y [n, T, width]
};

/// `gates` holds x·W_ihᵀ + b_ih of all time steps; those of t are replaced by their activations. `recurrent` [n, g·u]
/// is h·W_hhᵀ of the previous time step, empty in the first; `bias` [g·u] is b_hh. Writes `state` [n, T, u] of
/// master_dtype (lstm: c; gru: h·W_hnᵀ + b_hn) and y at t, and h [n, u].
void recurrent_forward_step(const ExecSpace& space, RecurrentCell cell, const RecurrentStep& step, const Tensor& gates,
                            const Tensor& recurrent, const Tensor& bias, const Tensor& state, const Tensor& y,
                            const Tensor& h);

/// Gradients of the products' results.
struct RecurrentGradients {
  Tensor dgates;   ///< [n, T, g·u]: gradient of x·W_ihᵀ + b_ih
  Tensor dhidden;  ///< [n, T, g·u]: gradient of h·W_hhᵀ + b_hh; empty if equal to dgates (lstm)
  Tensor dstep;    ///< [n, g·u]: gradient of h·W_hhᵀ + b_hh in one time step
  Tensor carried;  ///< [n, u] of master_dtype: gradient that bypasses the recurrent product
};

/// dh is dy at t plus `recurrent` [n, u], which is dstep·W_hh of the following time step; it is empty in the last one,
/// where `carried` is not read either. Writes all of `gradients` at t.
void recurrent_backward_step(const ExecSpace& space, RecurrentCell cell, const RecurrentStep& step, const Tensor& gates,
                             const Tensor& state, const Tensor& y, const Tensor& dy, const Tensor& recurrent,
                             const RecurrentGradients& gradients);

/// before[:, t] [n, T, u] = the direction's columns of y at t + offset (±1); 0 beyond the ends.
void recurrent_shift(const ExecSpace& space, std::int64_t offset, std::int64_t column, const Tensor& y,
                     const Tensor& before);

}  // namespace lockstep
