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

/// C (+)= op(A)·op(B), where op(A) is m×k, op(B) k×n and C m×n row-major. gemm_products.hpp builds inner products and
/// convolutions from a Gemm, so a library with only a matrix product can be a provider.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                        Store store) const = 0;
};

}  // namespace lockstep
