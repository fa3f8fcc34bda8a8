// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include "ops/portable/products.hpp"
#include "ops/products/gemm.hpp"

namespace lockstep {
namespace {

class PortableProvider final : public Provider {
 public:
  std::string_view name() const override { return "portable"; }
  std::string version() const override { return "Lockstep's own Kokkos kernels"; }
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    return is_16_bit_type(shape.dtype) ? widened_inner_product(*this, shape) : inner_product_from(gemm_, shape);
  }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return is_16_bit_type(shape.dtype) ? widened_convolution(*this, shape) : convolution_from(gemm_, shape);
  }
  std::unique_ptr<ScaledDotProductAttention> attention(const AttentionShape& shape) const override {
    return portable_attention(shape);
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
