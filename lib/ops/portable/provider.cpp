// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/provider.hpp"

#include "ops/gemm_products.hpp"
#include "ops/portable/gemm.hpp"

namespace lockstep {
namespace {

class PortableProvider final : public Provider {
 public:
  std::string_view name() const override { return "portable"; }
  std::string version() const override { return "Lockstep's own Kokkos kernels"; }
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    return inner_product_from(gemm_, shape);
  }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return convolution_from(gemm_, shape);
  }

 private:
  PortableGemm gemm_;
};

}  // namespace

const Provider* portable_provider() {
  static const PortableProvider provider;
  return &provider;
}

}  // namespace lockstep
