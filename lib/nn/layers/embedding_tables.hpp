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

}  // namespace lockstep
