// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/kokkos_kernels/provider.hpp"

#include <KokkosKernels_config.h>

#include "ops/gemm_products.hpp"
#include "ops/kokkos_kernels/gemm.hpp"
#include "ops/widened_products.hpp"

namespace lockstep {
namespace {

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
