// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

namespace lockstep {

struct DotInteractionConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Reads a vector [d] and k others [k, d]. The output [d + k(k + 1)/2] is the first vector followed by the dot products
/// of all pairs of the k + 1 vectors. See ops/dot_interaction.hpp.
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
