// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

// A layer that applies an activation keeps its derivative in the layer's saved memory, if backward needs it
// (keeps_derivative).
namespace lockstep {

inline std::size_t derivative_bytes(Activation activation, DType dtype, std::int64_t n, const Shape& output) {
  return keeps_derivative(activation) ? static_cast<std::size_t>(n * output.count()) * size_of(dtype) : 0;
}

/// The tensor in which forward stores the derivative; empty if no backward pass follows.
inline Tensor derivative_of(Activation activation, const PassContext& context, const LayerTensors& t) {
  return keeps_derivative(activation) && context.training && t.saved ? Tensor{t.saved.data, t.y.dtype, t.y.shape}
                                                                     : Tensor{};
}

/// The tensor from which backward computes the derivative: the kept derivative, or the output.
inline Tensor kept_of(Activation activation, const LayerTensors& t) {
  return keeps_derivative(activation) ? Tensor{t.saved.data, t.dy.dtype, t.dy.shape} : t.y;
}

}  // namespace lockstep
