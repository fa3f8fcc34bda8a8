// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

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

}  // namespace lockstep
