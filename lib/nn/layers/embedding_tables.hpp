// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

struct EmbeddingTablesConfig : LayerConfig {
  std::vector<std::int64_t> vocabularies;
  std::int64_t features = 0;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// y[k] = row x[k] of table k: x [n, tables], row numbers as values, y [n, tables, features]. The tables are below each
/// other in one weight [Σ vocabularies, features]; each starts as U(±1/√vocabulary), as DLRM does (Naumov et al., "Deep
/// learning recommendation model for personalization and recommendation systems", 2019). A row that a table has not is
/// NaN.
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
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;

 private:
  /// The rows of the weight that x names, in the workspace: i32 [n, tables].
  Tensor rows_of(const StepContext& context, const LayerTensors& tensors) const;

  EmbeddingTablesConfig config_;
  OwnedTensor first_;  // i64 [tables + 1]: where each begins in the weight, and the last ends
};

}  // namespace lockstep
