// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

namespace lockstep {

/// Embeddings of tokens and of their positions: the first layers of a network that reads text.

struct EmbeddingConfig : LayerConfig {
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  double initial_std = 0;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// y[t] = weight[x[t]]: x i32 [n, T], weight [vocabulary, features], y [n, T, features].
class Embedding final : public Layer {
 public:
  explicit Embedding(const EmbeddingConfig& config) : config_(config) {}

  std::string_view type() const override { return "embedding"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.vocabulary = config_.vocabulary, .backward_reads_inputs = LayerTraits::all_inputs};
  }
  std::size_t prepare(std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  EmbeddingConfig config_;
};

struct PositionEmbeddingConfig : LayerConfig {
  std::int64_t length = 0;
  double initial_std = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "length"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// y[t] = x[t] + weight[t], learned positions as in GPT-2: x, y [n, T, features], weight [length, features].
class PositionEmbedding final : public Layer {
 public:
  explicit PositionEmbedding(const PositionEmbeddingConfig& config) : config_(config) {}

  std::string_view type() const override { return "position_embedding"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.passes_gradient = LayerTraits::all_inputs, .overwrites_gradient = false};
  }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  PositionEmbeddingConfig config_;
};

struct PositionEncodingConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// y[t] = x[t] + waves[t] (Vaswani et al., "Attention is all you need", 2017; see position_waves): x, y
/// [n, T, features].
class PositionEncoding final : public Layer {
 public:
  std::string_view type() const override { return "position_encoding"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.passes_gradient = LayerTraits::all_inputs, .overwrites_gradient = false};
  }
  void allocate() override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  OwnedTensor waves_;  // [T, features]
};

}  // namespace lockstep
