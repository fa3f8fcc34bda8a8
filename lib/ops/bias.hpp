// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// y is treated as [rows, c] here: c is the last extent, rows are all others.

/// y = activation(y + bias) in place; bias [c] has y's master_dtype, or is empty. `derivative`, shaped like y, receives
/// the activation's derivative if that is kept; it is empty if no backward pass follows.
void bias_activation_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y,
                             const Tensor& derivative = {});

/// In one pass: dy ← dy · activation′, in place, and dbias [c] (master_dtype) (+)= the column sums of the new dy; dbias
/// may be empty. `kept`, shaped like dy, is the activation's derivative if that is kept, else its result; it is not
/// read, and may be empty, for Activation::none. The order of the sums depends only on the sizes and the number of
/// threads.
void bias_activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                              const Tensor& dbias, Store store, const Tensor& workspace);

/// Workspace bytes of bias_activation_backward for gradients [rows, c]; 0 with one thread.
std::size_t bias_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

}  // namespace lockstep
