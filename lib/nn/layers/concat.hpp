// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

namespace lockstep {

struct ConcatConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Concatenates two or more inputs along the last axis: features of vectors, channels of images. All other extents must
/// be equal.
class Concat final : public Layer {
 public:
  std::string_view type() const override { return "concat"; }
  LayerTraits traits() const override { return {.max_inputs = max_layer_inputs}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
