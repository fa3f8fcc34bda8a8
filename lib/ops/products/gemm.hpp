// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

enum class Transpose { no, yes };

/// One row-major operand: element (i, j) of the stored matrix is data[i·stride + j].
struct MatrixOperand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  Transpose transpose = Transpose::no;
};

/// C (+)= op(A)·op(B), where op(A) is m×k, op(B) k×n and C m×n row-major. Inner products and convolutions
/// can be made of a Gemm, so a library with only a matrix product can be a provider.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                        Store store) const = 0;
};

// Build a provider's products from a matrix product. `gemm` must outlive the returned objects.

std::unique_ptr<InnerProduct> inner_product_from(const Gemm& gemm, const InnerProductShape& shape);

/// A convolution as im2col and a matrix product, for a bounded number of images at a time. Weight gradients avoid
/// columns where that is faster (window_gradient).
std::unique_ptr<Convolution> convolution_from(const Gemm& gemm, const ConvolutionShape& shape);

}  // namespace lockstep
