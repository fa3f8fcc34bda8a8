// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// Batch normalization (Ioffe and Szegedy 2015) over [rows, c]: c channels; rows are all other extents, and may be
// spread over several calls. Tensors named by channel are [c], of master_dtype. The order of sums depends only on sizes
// and the number of threads.

/// The data that a batch norm keeps between its calls; each tensor is [c].
struct BatchNormState {
  Tensor mean, m2;          ///< of the rows observed so far; m2 is Σ (x − mean)²
  Tensor inv_std;           ///< 1/√(variance + ε)
  Tensor scale, shift;      ///< y = x·scale + shift
  Tensor sum_dy, sum_dy_x;  ///< Σ dy and Σ dy·(x − mean)
};

/// Operations that are fused into the output.
struct BatchNormOutput {
  bool relu = false;
  bool addition = false;  ///< adds a second input, before relu
};

/// Workspace bytes of the observing calls for this many rows.
std::size_t batch_norm_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

/// Merges x into the mean and m2 of the `seen` rows before it. Exact means and sums of squares of blocks are merged
/// without cancellation (Chan, Golub and LeVeque 1979).
void batch_norm_observe(const ExecSpace& space, const Tensor& x, std::int64_t seen, const BatchNormState& state,
                        const Tensor& workspace);
/// Computes inv_std of the `rows` rows that were observed.
void batch_norm_conclude(const ExecSpace& space, std::int64_t rows, double epsilon, const BatchNormState& state);

/// Computes scale and shift from the batch's mean and inv_std.
void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const BatchNormState& state);
/// Computes scale and shift from running values.
void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const Tensor& running_mean, const Tensor& running_var, double epsilon,
                             const BatchNormState& state);
/// y = relu(x·scale + shift + addend), with relu and addend as `output` says.
void batch_norm_forward(const ExecSpace& space, const Tensor& x, const Tensor& addend, const BatchNormState& state,
                        BatchNormOutput output, const Tensor& y);

/// Updates sum_dy and sum_dy_x with dy, of all calls since the `first`, where relu passes it. With an addition, dy also
/// becomes the added input's gradient: dy where relu passes it, else 0.
void batch_norm_observe_backward(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                                 bool first, const Tensor& dy, const BatchNormState& state, const Tensor& workspace);
/// Outputs of batch_norm_conclude_backward, stored or added: the gradients of weight and bias, and `examples` times the
/// increments of the running values. The increments are momentum·(mean − running_mean), and likewise for the unbiased
/// variance; one row has none, and increments nothing.
struct BatchNormGradients {
  Tensor weight, bias, running_mean, running_var;
};
void batch_norm_conclude_backward(const ExecSpace& space, std::int64_t rows, std::int64_t examples, double momentum,
                                  const Tensor& running_mean, const Tensor& running_var, const BatchNormState& state,
                                  Store store, const BatchNormGradients& gradients);
/// dx = scale·(dy − Σdy/rows − x̂·Σ(dy·x̂)/rows), where x̂ = (x − mean)·inv_std and `rows` counts the whole batch. dy
/// is what batch_norm_observe_backward has left, and counts where relu passes it. dx may be dy.
void batch_norm_backward(const ExecSpace& space, std::int64_t rows, const Tensor& x, BatchNormOutput output,
                         const Tensor& dy, const BatchNormState& state, const Tensor& dx);

/// Backward pass for fixed scale and shift, as with running values: dy ← dy where relu passes it, else 0, and dx =
/// scale·dy. With an addition, relu is evaluated from y, otherwise from x. dx may be dy, or empty.
void batch_norm_backward_fixed(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                               const Tensor& dy, const BatchNormState& state, const Tensor& dx);

// Layer normalization (Ba, Kiros and Hinton 2016) of each row of [rows, c], where c is the last extent; or root mean
// square normalization (Zhang and Sennrich 2019), which takes the mean as 0 and has no bias.

enum class RowNorm { layer, rms };

/// y = weight·(x − mean)·inv_std + bias, where inv_std = 1/√(variance + ε) with the biased variance. weight, bias [c]
/// and moments [rows, 2] have master_dtype. moments receives mean and inv_std of each row, and may be empty.
void layer_norm_forward(const ExecSpace& space, double epsilon, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& y, const Tensor& moments, RowNorm norm = RowNorm::layer);
/// layer_norm_forward of x = a + b; x is written in the same pass.
void add_layer_norm_forward(const ExecSpace& space, double epsilon, const Tensor& a, const Tensor& b, const Tensor& x,
                            const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments,
                            RowNorm norm = RowNorm::layer);

/// dx (+)= inv_std·(g − mean(g) − x̂·mean(g·x̂)), where g = dy·weight and x̂ = (x − mean)·inv_std; dx may be dy.
void layer_norm_backward_data(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& moments,
                              const Tensor& dy, const Tensor& dx, Store store, RowNorm norm = RowNorm::layer);

/// dweight (+)= Σ dy·x̂ and, unless dbias is empty, dbias (+)= Σ dy over the rows, in an order that depends only on
/// sizes and the number of threads.
void layer_norm_backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& moments, const Tensor& dy,
                                const Tensor& dweight, const Tensor& dbias, Store store, const Tensor& workspace);
std::size_t layer_norm_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

// Group norm (Wu & He 2018) of x [n, …, c]: the channels of each example are divided into groups, and each group is
// normalized to mean 0 and variance 1 over all positions. weight and bias are [c]; weight, bias and moments have x's
// master_dtype.

/// y = (x − mean) / √(variance + epsilon) · weight + bias. `moments` [n, 2, c] receives mean and 1/σ of each channel's
/// group; it is empty if no backward pass follows. The variance is computed from distances to the mean, not as a
/// difference of large numbers.
void group_norm_forward(const ExecSpace& space, std::int64_t groups, double epsilon, const Tensor& x,
                        const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments,
                        const Tensor& workspace);

/// dx = (g − mean(g) − x̂·mean(g·x̂)) / σ, where g = dy·weight, x̂ = (x − mean) / σ and means are over a group; dweight
/// (+)= Σ dy·x̂ and dbias (+)= Σ dy, in an order that depends only on sizes. dx may be empty, or both dweight and
/// dbias.
void group_norm_backward(const ExecSpace& space, std::int64_t groups, const Tensor& x, const Tensor& weight,
                         const Tensor& moments, const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias, Store store, const Tensor& workspace);

/// Workspace bytes of each of the two calls for n examples of this shape.
std::size_t group_norm_workspace_bytes(DType dtype, std::int64_t n, const Shape& example);

}  // namespace lockstep
