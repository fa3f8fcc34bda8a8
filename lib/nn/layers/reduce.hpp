// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/layer.hpp"
#include "ops/elementwise/strided.hpp"

namespace lockstep {

struct ReduceConfig : LayerConfig {
  std::vector<std::int64_t> axes;

  void describe(Fields& fields) override;
};
struct SumConfig : ReduceConfig {
  std::unique_ptr<Layer> make_layer() const override;
};
struct MeanConfig : ReduceConfig {
  std::unique_ptr<Layer> make_layer() const override;
};

/// Sum or mean over some axes of an example, which the output no longer has. Over all axes, the output is a vector of
/// one element.
class Reduce final : public Layer {
 public:
  enum class Of { sum, mean };

  Reduce(Of of, const std::vector<std::int64_t>& axes) : of_(of), axes_(axes) {}

  std::string_view type() const override { return of_ == Of::sum ? "sum" : "mean"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// For each axis of the input: true if it is reduced.
  std::vector<bool> summed(const Shape& input) const;
  /// The loops of the reduction; x is the input, y the output.
  StridedGrid grid_of(std::int64_t n) const;
  double factor() const;

  Of of_;
  std::vector<std::int64_t> axes_;
};

}  // namespace lockstep
