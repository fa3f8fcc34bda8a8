// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/onednn/gemm.hpp"

#include <dnnl.hpp>

namespace lockstep {
namespace {

char letter(const MatrixOperand& operand) { return operand.transpose == Transpose::yes ? 'T' : 'N'; }

}  // namespace

void OnednnGemm::multiply(const ExecSpace&, DType, std::int64_t m, std::int64_t n, std::int64_t k,
                          const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                          Store store) const {
  const dnnl_status_t status = dnnl_sgemm(letter(a), letter(b), m, n, k, 1.0f, static_cast<const float*>(a.data),
                                          a.stride, static_cast<const float*>(b.data), b.stride,
                                          store == Store::add ? 1.0f : 0.0f, static_cast<float*>(c), c_stride);
  if (status != dnnl_success) throw dnnl::error(status, "a matrix product failed");
}

}  // namespace lockstep
