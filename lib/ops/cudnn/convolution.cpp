// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/cudnn/graph.hpp"
#include "ops/cudnn/products.hpp"
#include "ops/library_convolution.hpp"

namespace lockstep {
namespace {

class CudnnProduct final : public ConvolutionProduct {
 public:
  explicit CudnnProduct(std::unique_ptr<CudnnGraph> graph) : graph_(std::move(graph)) {}

  std::size_t workspace_bytes() const override { return graph_->workspace_bytes(); }
  void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const override {
    graph_->run(space.cuda_stream(), tensors, workspace);
  }

 private:
  std::unique_ptr<CudnnGraph> graph_;
};

struct CudnnProducts : ConvolutionProducts {
  explicit CudnnProducts(const ConvolutionShape& shape) {
    // cuDNN 9.19 computed wrong weight gradients there (in fp32, groups of two channels, kernel 4).
    if (shape.groups > 1 && (shape.pad_top != shape.pad_bottom || shape.pad_left != shape.pad_right))
      throw PlanError("cuDNN is not used for groups with uneven padding");
    const CudnnDevice& device = CudnnDevice::current();
    CudnnForward planned = cudnn_forward(device, shape);
    forward = std::make_unique<CudnnProduct>(std::move(planned.graph));
    adds_bias = planned.adds_bias;
    data_gradient = std::make_unique<CudnnProduct>(cudnn_data_gradient(device, shape));
    weight_gradient = std::make_unique<CudnnProduct>(cudnn_weight_gradient(device, shape));
  }
};

}  // namespace

std::unique_ptr<Convolution> plan_cudnn_convolution(const ConvolutionShape& shape) {
  return library_convolution(shape, [](const ConvolutionShape& of) -> std::shared_ptr<const ConvolutionProducts> {
    return plans_for<CudnnProducts>(of);
  });
}

}  // namespace lockstep
