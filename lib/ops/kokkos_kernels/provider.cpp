// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include <KokkosKernels_config.h>

#include <KokkosBlas3_gemm.hpp>

#include "ops/portable/products.hpp"
#include "ops/products/gemm.hpp"
#include "ops/products/library_threads.hpp"

namespace lockstep {
namespace {

// All operands are LayoutRight, so that KokkosBlas::gemm passes them to the BLAS as they are, including strides.
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::Device<ExecSpace, MemorySpace>,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// A matrix of rows × columns whose rows are `stride` elements apart.
template <class T>
Matrix<T> matrix(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  const Matrix<T> whole(data, static_cast<std::size_t>(rows), static_cast<std::size_t>(stride));
  return Kokkos::subview(whole, Kokkos::ALL, std::pair<std::int64_t, std::int64_t>(0, columns));
}

template <class T>
Matrix<const T> operand(const MatrixOperand& from, std::int64_t rows, std::int64_t columns) {
  const auto* data = static_cast<const T*>(from.data);
  if (from.transpose == Transpose::yes) std::swap(rows, columns);
  return matrix<const T>(data, rows, columns, from.stride);
}

const char* transposition(const MatrixOperand& operand) { return operand.transpose == Transpose::yes ? "T" : "N"; }

/// KokkosBlas::gemm, which uses the BLAS that Kokkos Kernels was built with (OpenBLAS, MKL, cuBLAS, rocBLAS, …).
class KokkosKernelsGemm final : public Gemm {
 public:
  KokkosKernelsGemm() { use_kokkos_threads(); }
  void multiply(const ExecSpace& space, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                const MatrixOperand& a, const MatrixOperand& b, void* c, std::int64_t c_stride,
                Store store) const override {
    // KokkosBlas turns these into a matrix-vector product and assumes that both vectors are contiguous.
    if (n == 1 && (b.stride != 1 || c_stride != 1)) {
      portable_.multiply(space, dtype, m, n, k, a, b, c, c_stride, store);
      return;
    }
    dispatch_master(dtype, [&](auto real) {
      using T = decltype(real);
      KokkosBlas::gemm(space, transposition(a), transposition(b), T(1), operand<T>(a, m, k), operand<T>(b, k, n),
                       store == Store::add ? T(1) : T(0), matrix<T>(static_cast<T*>(c), m, n, c_stride));
    });
  }

 private:
  PortableGemm portable_;  // for shapes for which KokkosBlas computes wrong results
};

class KokkosKernelsProvider final : public Provider {
 public:
  std::string_view name() const override { return "kokkos_kernels"; }
  std::string version() const override {
    return fmt::format("{}.{}.{}", KOKKOSKERNELS_VERSION_MAJOR, KOKKOSKERNELS_VERSION_MINOR,
                       KOKKOSKERNELS_VERSION_PATCH);
  }
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    return is_16_bit_type(shape.dtype) ? widened_inner_product(*this, shape) : inner_product_from(gemm_, shape);
  }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return is_16_bit_type(shape.dtype) ? widened_convolution(*this, shape) : convolution_from(gemm_, shape);
  }

 private:
  KokkosKernelsGemm gemm_;
};

}  // namespace

const Provider* kokkos_kernels_provider() {
  static const KokkosKernelsProvider provider;
  return &provider;
}

}  // namespace lockstep
