// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

// A layer that computes an activation keeps its derivative, where it needs to, in its saved memory.
namespace lockstep {

inline std::size_t derivative_bytes(Activation activation, DType dtype, std::int64_t n, const Shape& output) {
  return keeps_derivative(activation) ? static_cast<std::size_t>(n * output.count()) * size_of(dtype) : 0;
}

/// The derivative of an output like `y`; empty where nothing is saved.
inline Tensor derivative_in(const Tensor& saved, const Tensor& y) {
  return saved ? Tensor{saved.data, y.dtype, y.shape} : Tensor{};
}

/// What backward reads to know the derivative of an output whose gradient is dy.
inline Tensor kept_of(Activation activation, const Tensor& saved, const Tensor& y, const Tensor& dy) {
  return keeps_derivative(activation) ? derivative_in(saved, dy) : y;
}

}  // namespace lockstep
