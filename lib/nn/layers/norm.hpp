// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "ops/norm/norm.hpp"

namespace lockstep {

struct BatchNormConfig : LayerConfig {
  double momentum = 0.1;
  double epsilon = 1e-5;
  bool zero_gamma = false;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Normalizes each channel (the last extent) by the mean and variance of the batch; in evaluation, and if the layer is
/// frozen, by their running values (PyTorch's formulas). In training all calls of a step use the statistics of the
/// whole batch: see LayerTraits::needs_statistics. The layer can add a second input to its result and then apply relu.
/// If a channel has only one value, its variance is 0, and does not enter the running one.
class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormConfig& config) : config_(config) {}

  std::string_view type() const override { return "batch_norm"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override;
  bool fuse(Activation activation) override;
  bool fuse_addition() override;
  void allocate() override;
  std::size_t prepare(std::int64_t n) override;

  void accumulate_statistics(const PassContext& context, const LayerTensors& tensors, bool first) override;
  BatchStatistics* batch_statistics() override { return &statistics_; }
  void finalize_statistics(const PassContext& context, std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void accumulate_gradient_statistics(const PassContext& context, const LayerTensors& tensors, bool first) override;
  void finalize_gradient_statistics(const PassContext& context, const LayerTensors& tensors, std::int64_t n) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// Writes the gradient of the added second input, which equals dy.
  void pass_on(const PassContext& context, const LayerTensors& tensors) const;

  BatchNormConfig config_;
  BatchNormOutput output_;
  OwnedTensor memory_;  ///< [7, c]: memory of `state_`
  BatchNormState state_;
  BatchStatistics statistics_;  ///< views of `state_`: the statistics of all examples observed so far
};

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
