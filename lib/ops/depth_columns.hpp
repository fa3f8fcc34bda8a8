// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// How a convolution over volumes becomes one over images: the slices that its kernel covers stand side by side as
/// channels, in the order of a weight [filters, c, kernel, …].
struct DepthColumnsShape {
  std::int64_t n = 0, depth = 0, slice = 0, c = 0;  ///< x [n, depth, slice, c], slice = height · width
  std::int64_t kernel = 1, stride = 1;
  std::int64_t pad_front = 0, pad_back = 0;  ///< slices of zeros around x

  std::int64_t out_depth() const { return (depth + pad_front + pad_back - kernel) / stride + 1; }
  std::int64_t count() const { return n * out_depth() * slice * c * kernel; }
};

/// columns [n·out_depth, slice, c·kernel]: at channel·kernel + k, slice o·stride − pad_front + k of x for slice o.
void depth_columns_forward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& x,
                           const Tensor& columns);

/// The transpose of it: dx is the sum of the columns that were copied from it, in the order of k (no atomics).
void depth_columns_backward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& dcolumns,
                            const Tensor& dx);

}  // namespace lockstep
