// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/convolution.hpp"

namespace lockstep {

// The kernels that turn convolutions into matrix products (gemm_products.cpp).

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

}  // namespace lockstep
