// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// Turns a convolution over volumes into one over images: the slices that the kernel covers become channels side by
/// side, in the order of a weight [filters, c, kernel, …].
struct DepthColumnsShape {
  std::int64_t n = 0, depth = 0, slice = 0, c = 0;  ///< x [n, depth, slice, c], where slice = height · width
  std::int64_t kernel = 1, stride = 1;
  std::int64_t pad_front = 0, pad_back = 0;  ///< slices of zeros around x

  std::int64_t out_depth() const { return (depth + pad_front + pad_back - kernel) / stride + 1; }
  std::int64_t count() const { return n * out_depth() * slice * c * kernel; }
};

/// columns [n·out_depth, slice, c·kernel]: for output slice o, channel·kernel + k holds slice o·stride − pad_front + k
/// of x.
void depth_columns_forward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& x,
                           const Tensor& columns);

/// The transpose of depth_columns_forward: each dx is the sum of the columns copied from it, in the order of k, without
/// atomics.
void depth_columns_backward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& dcolumns,
                            const Tensor& dx);

}  // namespace lockstep
