// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y_j = e^(x_j − max) / Σ_k e^(x_k − max) over the last extent; y may be x.
void softmax_forward(const ExecSpace& space, const Tensor& x, const Tensor& y);
/// dx_j = y_j·(dy_j − Σ_k dy_k·y_k); dx may be dy.
void softmax_backward(const ExecSpace& space, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace lockstep
