// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"

namespace lockstep {

struct GroupNormConfig : LayerConfig {
  std::int64_t groups = 0;
  double epsilon = 1e-5;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "groups"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Group norm (Wu & He 2018). One group is layer norm over all positions; as many groups as channels is instance norm
/// (Ulyanov et al. 2016). Keeps the mean and 1/σ for each channel of each example from forward to backward.
class GroupNorm final : public Layer {
 public:
  explicit GroupNorm(const GroupNormConfig& config) : groups_(config.groups), epsilon_(config.epsilon) {}

  std::string_view type() const override { return "group_norm"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .overwrites_gradient = false};
  }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  Tensor moments_in(const Tensor& saved, std::int64_t n) const;

  std::int64_t groups_;
  double epsilon_;
};

}  // namespace lockstep
