// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "base/error.hpp"
#include "ops/cudnn/graph.hpp"
#include "ops/cudnn/products.hpp"
#include "ops/cudnn/provider.hpp"

namespace lockstep {
namespace {

class CudnnProvider final : public Provider {
 public:
  std::string_view name() const override { return "cudnn"; }
  std::string version() const override { return cudnn_version(); }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    const std::int64_t x = shape.h * shape.w * shape.c, y = shape.out_h() * shape.out_w() * shape.filters;
    return may_begin_anywhere(shape.dtype, {x, y}) ? planned(shape, plan_cudnn_convolution) : nullptr;
  }
  std::unique_ptr<ScaledDotProductAttention> attention(const AttentionShape& shape) const override {
    return may_begin_anywhere(shape.dtype, {shape.head_size}) ? planned(shape, plan_cudnn_attention) : nullptr;
  }

 private:
  /// cuDNN reads 16 bytes at a time, and some examples of a batch may begin where any example does.
  static bool may_begin_anywhere(DType dtype, std::initializer_list<std::int64_t> counts) {
    return std::ranges::all_of(
        counts, [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype) % 16 == 0; });
  }

  /// Null for what the others must do.
  template <class Shape, class Product>
  static std::unique_ptr<Product> planned(const Shape& shape, std::unique_ptr<Product> (*plan)(const Shape&)) {
    if (shape.dtype == DType::f64) return nullptr;
    try {
      return plan(shape);
    } catch (const CudnnError&) {
      return nullptr;
    }
  }
};

}  // namespace

const Provider* cudnn_provider() {
  static const CudnnProvider provider;
  return &provider;
}

std::string cudnn_device_properties() {
  try {
    return CudnnDevice::current().properties();
  } catch (const CudnnError& error) {
    throw Error(ExitStatus::internal, std::string("there is no device to describe: ") + error.what());
  }
}

}  // namespace lockstep
