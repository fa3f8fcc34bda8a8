// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include <dnnl.hpp>

#include "ops/onednn/call.hpp"

namespace lockstep {
namespace {

class OnednnProvider final : public Provider {
 public:
  std::string_view name() const override { return "onednn"; }
  std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
  }
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    auto product = planned(shape, onednn_inner_product);
    return product || !is_16_bit_type(shape.dtype) ? std::move(product) : widened_inner_product(*this, shape);
  }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    auto product = planned(shape, onednn_convolution);
    return product || !is_16_bit_type(shape.dtype) ? std::move(product) : widened_convolution(*this, shape);
  }

 private:
  /// Null if another provider must compute the product. 16-bit types need a CPU that supports them.
  template <class Shape, class Plan>
  static auto planned(const Shape& shape, Plan plan) -> decltype(plan(shape)) {
    if (shape.dtype == DType::f64 || shape.n == 0) return nullptr;
    return unless_refused([&] { return plan(shape); });
  }
};

}  // namespace

const Provider* onednn_provider() {
  static const OnednnProvider provider;
  return &provider;
}

}  // namespace lockstep
