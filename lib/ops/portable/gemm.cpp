// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/products.hpp"

#include "ops/portable/gemm_cpu.hpp"
#include "ops/portable/gemm_gpu.hpp"

namespace lockstep {
namespace {

template <class T>
void run(const ExecSpace& space, std::int64_t m, std::int64_t n, std::int64_t k, const Strided<T>& a,
         const Strided<T>& b, T* c, std::int64_t c_stride, bool add) {
  if (m == 0 || n == 0) return;
  if constexpr (thread_per_element) multiply_on_gpu<T>(space, m, n, k, a, b, c, c_stride, add);
  else multiply_on_cpu<T>(space, m, n, k, a, b, c, c_stride, add);
}

}  // namespace

void PortableGemm::multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                            const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                            Store store) const {
  dispatch_master(dtype, [&](auto real) {
    using T = decltype(real);
    run<T>(space, m, n, k, strided<T>(a), strided<T>(b), static_cast<T*>(c), c_stride, store == Store::add);
  });
}

}  // namespace lockstep
