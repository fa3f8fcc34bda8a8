// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ops/cudnn/graph.hpp"
#include "ops/products/library_products.hpp"

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

struct AttentionGraphs {
  std::unique_ptr<CudnnGraph> forward, backward;

  explicit AttentionGraphs(const AttentionShape& shape)
      : forward(cudnn_attention(CudnnDevice::current(), shape)),
        backward(cudnn_attention_gradient(CudnnDevice::current(), shape)) {}
};

class CudnnAttention final : public ScaledDotProductAttention {
 public:
  explicit CudnnAttention(const AttentionShape& shape) : shape_(shape), graphs_(plans_for<AttentionGraphs>(shape)) {}

  /// Null if cuDNN declines.
  static std::unique_ptr<ScaledDotProductAttention> planned(const AttentionShape& shape) {
    if (shape.memory > 0) return nullptr;  // the graphs expect queries, keys and values side by side
    if (!may_begin_anywhere(shape.dtype, {shape.head_size})) return nullptr;
    try {
      return std::make_unique<CudnnAttention>(shape);
    } catch (const PlanError&) {
      return nullptr;
    }
  }

  std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const override {
    AttentionShape shape = shape_;
    shape.n = n;
    return planned(shape);
  }
  std::size_t workspace_bytes() const override {
    return graphs_ ? std::max(graphs_->forward->workspace_bytes(), graphs_->backward->workspace_bytes()) : 0;
  }
  void forward(const ExecSpace& space, const Tensor& qkv, const Tensor&, const Tensor& y, const Tensor& logsumexp,
               const Tensor& workspace) override {
    if (!graphs_) return;
    void* const tensors[] = {part(qkv, 0), part(qkv, 1), part(qkv, 2), y.data, logsumexp.data};
    graphs_->forward->run(space.cuda_stream(), tensors, workspace.data);
  }
  void backward(const ExecSpace& space, const Tensor& qkv, const Tensor&, const Tensor& y, const Tensor& logsumexp,
                const Tensor& dy, const Tensor& dqkv, const Tensor&, const Tensor& workspace) override {
    if (!graphs_) return;
    void* const tensors[] = {part(qkv, 0), part(qkv, 1),  part(qkv, 2),  y.data,       logsumexp.data,
                             dy.data,      part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)};
    graphs_->backward->run(space.cuda_stream(), tensors, workspace.data);
  }

 private:
  /// The address of the first of the queries (0), keys (1) or values (2).
  void* part(const Tensor& qkv, std::int64_t number) const {
    return static_cast<std::byte*>(qkv.data) +
           static_cast<std::size_t>(number * shape_.width()) * size_of(shape_.dtype);
  }

  AttentionShape shape_;
  std::shared_ptr<const AttentionGraphs> graphs_;  // null: no examples
};

class CudnnProvider final : public Provider {
 public:
  std::string_view name() const override { return "cudnn"; }
  std::string version() const override { return cudnn_version(); }
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return library_convolution(shape, [](const ConvolutionShape& of) -> std::shared_ptr<const ConvolutionProducts> {
      return plans_for<CudnnProducts>(of);
    });
  }
  std::unique_ptr<ScaledDotProductAttention> attention(const AttentionShape& shape) const override {
    return CudnnAttention::planned(shape);
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
