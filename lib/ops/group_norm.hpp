// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

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
