// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// Embeddings of tokens, of their positions and of categories: the first layers of a network that reads text or
/// categories.

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

struct EmbeddingTablesConfig : LayerConfig {
  std::vector<std::int64_t> vocabularies;
  std::int64_t features = 0;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// y[k] = row x[k] of table k: x [n, tables] holds row numbers as floating-point values, y [n, tables, features]. All
/// tables are stacked in one weight [Σ vocabularies, features]; each table starts as U(±1/√rows), as in DLRM (Naumov et
/// al., "Deep learning recommendation model for personalization and recommendation systems", 2019). A row number that
/// its table does not have gives NaN.
class EmbeddingTables final : public Layer {
 public:
  explicit EmbeddingTables(const EmbeddingTablesConfig& config) : config_(config) {}

  std::string_view type() const override { return "embedding_tables"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.tables = config_.vocabularies, .backward_reads_inputs = LayerTraits::all_inputs};
  }
  void allocate() override;
  std::size_t prepare(std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// Returns the row numbers in the stacked weight that x refers to, i32 [n, tables], at the start of the workspace.
  Tensor rows_of(const PassContext& context, const LayerTensors& tensors) const;

  EmbeddingTablesConfig config_;
  OwnedTensor first_;  // i64 [tables + 1]: first row of each table, and the number of all rows
};

struct DotInteractionConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Reads a vector [d] and k others [k, d]. The output [d + k(k + 1)/2] is the first vector followed by the dot products
/// of all pairs of the k + 1 vectors. See dot_interaction_forward.
class DotInteraction final : public Layer {
 public:
  std::string_view type() const override { return "dot_interaction"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.max_inputs = 2, .backward_reads_inputs = LayerTraits::all_inputs, .overwrites_gradient = false};
  }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
