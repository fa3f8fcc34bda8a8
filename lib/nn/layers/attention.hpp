// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "nn/layers/plan_cache.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

struct AttentionConfig : LayerConfig {
  std::int64_t heads = 0;
  bool causal = true;
  bool rotary = false;
  double rotary_base = 10000;
  double initial_std = 0;
  double out_initial_std = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "heads"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Throws if `input` is not a sequence [T, d], or if its features cannot be divided evenly among the heads.
void check_attention_input(std::string_view type, const Shape& input, std::int64_t heads);
/// The parameters qkv_weight [3·d, d] (rows for q, then k, then v), qkv_bias [3·d], out_weight [d, d] and out_bias [d].
/// A standard deviation of 0 selects PyTorch's initialization.
std::vector<ParameterSpec> attention_parameters(std::int64_t d, double initial_std, double out_initial_std);

/// Multi-head self-attention as in torch.nn.MultiheadAttention: x, y [n, T, d].
class Attention final : public Layer {
 public:
  explicit Attention(const AttentionConfig& config) : config_(config) {}

  std::string_view type() const override { return "attention"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override { return {.backward_reads_inputs = LayerTraits::all_inputs}; }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override;
  void allocate() override;
  void set_weights(std::span<const Tensor> weights) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

  /// The attention product that is planned for n sequences. Valid after `plan`.
  AttentionShape product(std::int64_t n) const;

 private:
  InnerProductShape qkv_shape(std::int64_t n) const;
  InnerProductShape out_shape(std::int64_t n) const;

  AttentionConfig config_;
  OwnedTensor waves_;                                    // [T, features of a head]: angles of rotary positions
  PlanCache<InnerProduct> qkv_products_, out_products_;  // by number of rows, n·T
  PlanCache<ScaledDotProductAttention> attentions_;      // by number of sequences
};

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
