// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layers/attention.hpp"

namespace lockstep {

struct CrossAttentionConfig : LayerConfig {
  std::int64_t heads = 0;
  double initial_std = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "heads"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Multi-head attention from the positions of one sequence to those of another, the memory, as in
/// torch.nn.MultiheadAttention: x [n, T, d], memory [n, S, d], y [n, T, d]. The parameters are those of `attention`; q
/// is computed from x, k and v from the memory.
class CrossAttention final : public Layer {
 public:
  explicit CrossAttention(const CrossAttentionConfig& config) : config_(config) {}

  std::string_view type() const override { return "cross_attention"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override { return {.max_inputs = 2, .backward_reads_inputs = LayerTraits::all_inputs}; }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override;
  void set_weights(std::span<const Tensor> weights) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  AttentionShape product(std::int64_t n) const;
  /// The product that computes `parts`·d features for every position of input number `input`.
  InnerProductShape product_of(std::int64_t n, std::size_t input, std::int64_t parts) const;

  CrossAttentionConfig config_;
  PlanCache<InnerProduct> q_products_, kv_products_, out_products_;  // by number of rows, n·T and n·S
  PlanCache<ScaledDotProductAttention> attentions_;                  // by number of sequences
};

}  // namespace lockstep
