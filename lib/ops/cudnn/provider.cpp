// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/cudnn/provider.hpp"

#include "base/error.hpp"
#include "ops/cudnn/graph.hpp"
#include "ops/cudnn/products.hpp"
#include "ops/library_plans.hpp"

namespace lockstep {
namespace {

class CudnnProvider final : public Provider {
 public:
  std::string_view name() const override { return "cudnn"; }
  std::string version() const override { return cudnn_version(); }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return plan_cudnn_convolution(shape);
  }
  std::unique_ptr<ScaledDotProductAttention> attention(const AttentionShape& shape) const override {
    return plan_cudnn_attention(shape);
  }
  std::unique_ptr<RecurrentSequence> recurrent(const RecurrentShape& shape) const override {
    return plan_cudnn_recurrent(shape);
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
  } catch (const PlanError& error) {
    throw Error(ExitStatus::internal, std::string("the device cannot be described: ") + error.what());
  }
}

}  // namespace lockstep
