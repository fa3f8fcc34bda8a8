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
    if (writes_beyond_its_workspace(shape)) return nullptr;
    auto product = planned(shape, onednn_convolution);
    return product || !is_16_bit_type(shape.dtype) ? std::move(product) : widened_convolution(*this, shape);
  }

 private:
  /// For 1×1 convolutions with strides, oneDNN (3.6) first gathers pixels in whole vectors. Where channels do not fill
  /// these, it writes beyond its workspace.
  static bool writes_beyond_its_workspace(const ConvolutionShape& shape) {
    const std::int64_t vector = onednn_uses_avx2() ? 8 : 16;
    return shape.kernel_h == 1 && shape.kernel_w == 1 && shape.stride > 1 && shape.c / shape.groups % vector != 0;
  }
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
