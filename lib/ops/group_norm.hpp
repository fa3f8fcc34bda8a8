// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// Group norm (Wu & He 2018) of x [n, …, c]: the channels of an example are cut into groups, and each of these gets mean
// 0 and variance 1 over all places. weight, bias and moments are of x's master_dtype, weight and bias [c].

/// y = (x − mean) / √(variance + epsilon) · weight + bias. `moments` [n, 2, c] receives mean and 1/σ of each channel's
/// group, empty where no backward pass follows. The variance is that of distances from the mean: no difference of large
/// numbers.
void group_norm_forward(const ExecSpace& space, std::int64_t groups, double epsilon, const Tensor& x,
                        const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments,
                        const Tensor& workspace);

/// dx = (g − mean(g) − x̂·mean(g·x̂)) / σ, g = dy·weight, x̂ = (x − mean) / σ, the means over a group; dweight (+)= Σ dy·x̂
/// and dbias (+)= Σ dy, in an order that depends only on sizes. dx, or dweight and dbias, may be empty.
void group_norm_backward(const ExecSpace& space, std::int64_t groups, const Tensor& x, const Tensor& weight,
                         const Tensor& moments, const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias, Store store, const Tensor& workspace);

/// Bytes that each of the two needs in `workspace` for n examples of this shape.
std::size_t group_norm_workspace_bytes(DType dtype, std::int64_t n, const Shape& example);

}  // namespace lockstep
