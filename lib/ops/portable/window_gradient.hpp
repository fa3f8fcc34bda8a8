// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/convolution.hpp"

namespace lockstep {

// The gradient of a convolution's weight without columns, on CPUs. A kernel's line covers kernel_w·c/groups neighbours
// in x, and moves by stride·c/groups from one pixel of y to the next: a matrix with strides, which a product can read
// where it stands. With few channels that is up to twice as fast as columns, which have kernel_h·kernel_w times as much
// to copy.

/// Whether it is faster than a product of columns (measured): windows of several pixels and few channels whose lines
/// fill a tile, images at least 8 pixels wide, and rows of x that stay in the level-2 cache. Never on devices.
bool has_window_gradient(const ConvolutionShape& shape);

std::size_t window_gradient_workspace_bytes(const ConvolutionShape& shape);

/// dweight [filters, c/groups, kernel_h, kernel_w] of x [n, h, w, c] and dy [n, out_h, out_w, filters], n ≥ 1. The
/// order of the sums depends on the number of threads.
void window_gradient(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                     const Tensor& dweight, Store store, const Tensor& workspace);

}  // namespace lockstep
