// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/bias.hpp"
#include "ops/convert.hpp"
#include "ops/cudnn/graph.hpp"
#include "ops/cudnn/graph_cache.hpp"
#include "ops/cudnn/products.hpp"

namespace lockstep {
namespace {

/// The three products of one shape.
struct ConvolutionGraphs {
  std::unique_ptr<CudnnGraph> forward, data_gradient, weight_gradient;
  bool adds_bias = true;  // forward does, and applies the activation

  explicit ConvolutionGraphs(const ConvolutionShape& shape) {
    const CudnnDevice& device = CudnnDevice::current();
    forward = plan_forward(device, shape);
    data_gradient = cudnn_data_gradient(device, shape);
    weight_gradient = cudnn_weight_gradient(device, shape);
  }

 private:
  std::unique_ptr<CudnnGraph> plan_forward(const CudnnDevice& device, ConvolutionShape shape) {
    if (shape.activation == Activation::none || shape.activation == Activation::relu) {
      try {
        return cudnn_convolution(device, shape);
      } catch (const CudnnError&) {
        if (!shape.bias && shape.activation == Activation::none) throw;
      }
    }
    adds_bias = false;
    shape.bias = false, shape.activation = Activation::none;
    return cudnn_convolution(device, shape);
  }
};

class CudnnConvolution final : public Convolution {
 public:
  explicit CudnnConvolution(const ConvolutionShape& shape, std::shared_ptr<Tensor> weight = std::make_shared<Tensor>())
      : shape_(shape), graphs_(graphs_for<ConvolutionGraphs>(shape)), weight_(std::move(weight)) {}

  std::unique_ptr<Convolution> resized(std::int64_t n) const override {
    ConvolutionShape shape = shape_;
    shape.n = n;
    return std::make_unique<CudnnConvolution>(shape, weight_);
  }
  std::size_t workspace_bytes() const override {
    if (!graphs_) return 0;
    return std::max({graphs_->forward->workspace_bytes(), graphs_->data_gradient->workspace_bytes(),
                     own_gradient_bytes() + graphs_->weight_gradient->workspace_bytes()});
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (!graphs_) return;
    if (!graphs_->adds_bias || !shape_.bias)
      run(space, *graphs_->forward, {x.data, weight_->data, y.data}, workspace.data);
    else run(space, *graphs_->forward, {x.data, weight_->data, bias.data, y.data}, workspace.data);
    if (!graphs_->adds_bias) bias_activation_forward(space, bias, shape_.activation, y);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    if (graphs_) run(space, *graphs_->data_gradient, {dy.data, weight_->data, dx.data}, workspace.data);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (!graphs_) {
      if (store == Store::replace) fill_zero(space, dweight);
      return;
    }
    if (dweight.dtype == shape_.dtype && store == Store::replace)
      return run(space, *graphs_->weight_gradient, {x.data, dy.data, dweight.data}, workspace.data);
    const Tensor own{workspace.data, shape_.dtype, dweight.shape};
    run(space, *graphs_->weight_gradient, {x.data, dy.data, own.data},
        static_cast<std::byte*>(workspace.data) + own_gradient_bytes());
    if (store == Store::add) add_converted(space, own, dweight);
    else convert(space, own, dweight);
  }

 private:
  /// Bytes of the weight's gradient as cuDNN gives it; it stands at the workspace's start.
  std::size_t own_gradient_bytes() const {
    const std::int64_t count = shape_.filters * (shape_.c / shape_.groups) * shape_.kernel_h * shape_.kernel_w;
    return align_up(static_cast<std::size_t>(count) * size_of(shape_.dtype));
  }
  static void run(const ExecSpace& space, const CudnnGraph& graph, std::initializer_list<void*> tensors,
                  void* workspace) {
    graph.run(space.cuda_stream(), {tensors.begin(), tensors.size()}, workspace);
  }

  ConvolutionShape shape_;
  std::shared_ptr<const ConvolutionGraphs> graphs_;  // null: no examples
  std::shared_ptr<Tensor> weight_;
};

}  // namespace

std::unique_ptr<Convolution> plan_cudnn_convolution(const ConvolutionShape& shape) {
  return std::make_unique<CudnnConvolution>(shape);
}

}  // namespace lockstep
