// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

// y stands for [rows, c] here: c is the last extent, rows all others.

/// y = activation(y + bias) in place; bias [c] of y's master_dtype, or empty. `derivative`, like y, becomes
/// the activation's derivative, if it is one that keeps it; empty where no backward pass follows.
void bias_activation_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y,
                             const Tensor& derivative = {});

/// In one pass: dy ← dy · activation′, in place, and dbias [c] (master_dtype) (+)= the column sums of
/// that; dbias may be empty. `kept`, like dy, is the activation's derivative if it keeps that, else its result
/// (not read, and may be empty, for Activation::none).
/// The sums are added in an order that depends only on the sizes and the number of threads.
void bias_activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                              const Tensor& dbias, Store store, const Tensor& workspace);

/// Bytes that the call above needs in `workspace` for gradients [rows, c] (0 with one thread).
std::size_t bias_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

}  // namespace lockstep
