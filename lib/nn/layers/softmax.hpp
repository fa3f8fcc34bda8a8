// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

namespace lockstep {

struct SoftmaxConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Probabilities along the last extent. The loss cross_entropy reads logits, so it needs no softmax before it.
class Softmax final : public Layer {
 public:
  std::string_view type() const override { return "softmax"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  LayerTraits traits() const override { return {.backward_reads_output = true}; }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
