// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/products/gemm.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

/// A matrix product in plain Kokkos, with register and cache tiles that are copied to team scratch memory.
class PortableGemm final : public Gemm {
 public:
  void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                Store store) const override;
};

/// Attention by kernels for CPUs (attention_cpu.hpp) or GPUs (attention_gpu.hpp), for every shape and type.
std::unique_ptr<ScaledDotProductAttention> portable_attention(const AttentionShape& shape);

// The weight gradient of a convolution without columns, on CPUs. A line of the kernel covers kernel_w·c/groups
// consecutive elements of x, and moves by stride·c/groups from one pixel of y to the next. That is a strided matrix,
// which a product can read in place. With few channels this is up to twice as fast as columns, which have
// kernel_h·kernel_w times as many elements to copy.

/// True if this is faster than a product of columns, as measured: windows of several pixels and few channels whose
/// lines fill a tile, images at least 8 pixels wide, and rows of x that stay in the level-2 cache. Never on devices.
bool has_window_gradient(const ConvolutionShape& shape);

std::size_t window_gradient_workspace_bytes(const ConvolutionShape& shape);

/// Computes dweight [filters, c/groups, kernel_h, kernel_w] from x [n, h, w, c] and dy [n, out_h, out_w, filters], n ≥
/// 1. The order of the sums depends on the number of threads.
void window_gradient(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                     const Tensor& dweight, Store store, const Tensor& workspace);

}  // namespace lockstep
