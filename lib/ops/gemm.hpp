// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

enum class Transpose { no, yes };

/// One row-major operand: element (i, j) of the stored matrix is data[i·stride + j].
struct MatrixOperand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  Transpose transpose = Transpose::no;
};

/// C (+)= op(A)·op(B); op(A) is m×k, op(B) k×n, C m×n row-major. From a Gemm, `gemm_products.hpp`
/// makes whole inner products and convolutions, so a library with nothing but a matrix product is
/// a provider.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                        Store store) const = 0;
};

}  // namespace lockstep
