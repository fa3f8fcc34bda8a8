// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// Batch normalization (Ioffe and Szegedy 2015) over [rows, c]: c channels, rows all other extents, of as
// many calls as the batch has pieces. Tensors named by channel are [c], of master_dtype. Sums run in an order
// that depends only on sizes and the number of threads.

/// What a batch norm keeps between its calls; each is [c].
struct BatchNormState {
  Tensor mean, m2;          ///< of the rows seen so far; m2: Σ (x − mean)²
  Tensor inv_std;           ///< 1/√(variance + ε)
  Tensor scale, shift;      ///< y = x·scale + shift
  Tensor sum_dy, sum_dy_x;  ///< Σ dy and Σ dy·(x − mean)
};

/// What else happens to the output.
struct BatchNormOutput {
  bool relu = false;
  bool addition = false;  ///< of a second input, before relu
};

/// Workspace of the observing calls for this many rows.
std::size_t batch_norm_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

/// Joins x to the mean and m2 of the `seen` rows before it (Chan, Golub and LeVeque 1979: exact means and sums of
/// squares of blocks are merged, so that nothing cancels).
void batch_norm_observe(const ExecSpace& space, const Tensor& x, std::int64_t seen, const BatchNormState& state,
                        const Tensor& workspace);
/// inv_std of the `rows` that were seen.
void batch_norm_conclude(const ExecSpace& space, std::int64_t rows, double epsilon, const BatchNormState& state);

/// scale and shift from the batch's mean and inv_std …
void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const BatchNormState& state);
/// … or from running values.
void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const Tensor& running_mean, const Tensor& running_var, double epsilon,
                             const BatchNormState& state);
/// y = relu(x·scale + shift + addend), as `output` says.
void batch_norm_forward(const ExecSpace& space, const Tensor& x, const Tensor& addend, const BatchNormState& state,
                        BatchNormOutput output, const Tensor& y);

/// sum_dy and sum_dy_x become those sums over dy (of all calls since the `first`), where relu let something through.
/// With an addition, whose gradient that is, dy ← dy there, else 0.
void batch_norm_observe_backward(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                                 bool first, const Tensor& dy, const BatchNormState& state, const Tensor& workspace);
/// Gradients of weight and bias, (+)=; and, (+)= too, `examples` times what the batch adds to the running values:
/// momentum·(mean − running_mean), and with the unbiased variance likewise.
struct BatchNormGradients {
  Tensor weight, bias, running_mean, running_var;
};
void batch_norm_conclude_backward(const ExecSpace& space, std::int64_t rows, std::int64_t examples, double momentum,
                                  const Tensor& running_mean, const Tensor& running_var, const BatchNormState& state,
                                  Store store, const BatchNormGradients& gradients);
/// dx = scale·(dy − Σdy/rows − x̂·Σ(dy·x̂)/rows), x̂ = (x − mean)·inv_std, rows those of the batch, of what
/// batch_norm_observe_backward has left in dy and relu let through; dx may be dy.
void batch_norm_backward(const ExecSpace& space, std::int64_t rows, const Tensor& x, BatchNormOutput output,
                         const Tensor& dy, const BatchNormState& state, const Tensor& dx);

/// Where y depends on x by scale and shift alone, as with running values: dy ← dy where relu let something through, by
/// y with an addition and by x without one, dx = scale·dy; dx may be dy, or empty.
void batch_norm_backward_fixed(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                               const Tensor& dy, const BatchNormState& state, const Tensor& dx);

}  // namespace lockstep
