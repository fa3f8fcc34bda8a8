// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

// The kernels that turn convolutions into matrix products (gemm.cpp).

/// A range of images of a batch.
struct Im2col {
  ConvolutionShape shape;
  std::int64_t first_image = 0;
  std::int64_t images = 0;
};

/// columns [images·out_h·out_w, kernel_h·kernel_w·c/groups] of one group of x [n, h, w, c]; 0 where the kernel covers
/// padding.
void im2col(const ExecSpace& space, const Im2col& chunk, std::int64_t group, const Tensor& x, const Tensor& columns);

/// The transpose of im2col: writes the group's channels of the chunk's images of dx. Each element gathers the sum of
/// the columns copied from it, without atomics.
void col2im(const ExecSpace& space, const Im2col& chunk, std::int64_t group, const Tensor& columns, const Tensor& dx);

/// weight [filters, c/groups, kernel_h, kernel_w] → ordered [filters, kernel_h, kernel_w, c/groups], and back.
void to_channels_last(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& weight,
                      const Tensor& ordered);
void from_channels_last(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& ordered,
                        const Tensor& weight, Store store);

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
