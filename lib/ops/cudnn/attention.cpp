// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "ops/cudnn/graph.hpp"
#include "ops/cudnn/products.hpp"

namespace lockstep {
namespace {

struct AttentionGraphs {
  std::unique_ptr<CudnnGraph> forward, backward;

  explicit AttentionGraphs(const AttentionShape& shape)
      : forward(cudnn_attention(CudnnDevice::current(), shape)),
        backward(cudnn_attention_gradient(CudnnDevice::current(), shape)) {}
};

class CudnnAttention final : public ScaledDotProductAttention {
 public:
  explicit CudnnAttention(const AttentionShape& shape) : shape_(shape), graphs_(plans_for<AttentionGraphs>(shape)) {}

  std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const override {
    AttentionShape shape = shape_;
    shape.n = n;
    return plan_cudnn_attention(shape);
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

}  // namespace

std::unique_ptr<ScaledDotProductAttention> plan_cudnn_attention(const AttentionShape& shape) {
  if (shape.memory > 0) return nullptr;  // the graphs expect queries, keys and values side by side
  if (!may_begin_anywhere(shape.dtype, {shape.head_size})) return nullptr;
  try {
    return std::make_unique<CudnnAttention>(shape);
  } catch (const PlanError&) {
    return nullptr;
  }
}

}  // namespace lockstep
