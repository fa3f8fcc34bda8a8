// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/gemm.hpp"
#include "ops/portable/gemm.hpp"

namespace lockstep {

/// KokkosBlas::gemm, which uses the BLAS that Kokkos Kernels was built with (OpenBLAS, MKL, cuBLAS, rocBLAS, …).
class KokkosKernelsGemm final : public Gemm {
 public:
  KokkosKernelsGemm();
  void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                Store store) const override;

 private:
  PortableGemm portable_;  // for shapes for which KokkosBlas computes wrong results
};

}  // namespace lockstep
