// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "ops/norm/norm.hpp"

namespace lockstep {

struct LayerNormConfig : LayerConfig {
  double epsilon = 1e-5;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

struct RmsNormConfig : LayerConfig {
  double epsilon = 1e-5;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Layer norm, or root mean square norm, along the last extent. A residual sum that it reads is computed in the same
/// pass; backward adds its gradient to one already in dx in the same pass. Keeps the mean and 1/σ of each row from
/// forward to backward.
class LayerNorm final : public Layer {
 public:
  LayerNorm(RowNorm norm, double epsilon) : norm_(norm), epsilon_(epsilon) {}

  std::string_view type() const override { return norm_ == RowNorm::rms ? "rms_norm" : "layer_norm"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.takes_sum = true, .backward_reads_inputs = LayerTraits::all_inputs, .adds_gradient = true};
  }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  Tensor moments_in(const Tensor& saved, std::int64_t rows) const;

  RowNorm norm_;
  double epsilon_;
};

}  // namespace lockstep
