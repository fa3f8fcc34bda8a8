// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/gemm.hpp"

namespace lockstep {

/// A matrix product in plain Kokkos, with register and cache tiles that are copied to team scratch memory.
class PortableGemm final : public Gemm {
 public:
  void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                Store store) const override;
};

}  // namespace lockstep
