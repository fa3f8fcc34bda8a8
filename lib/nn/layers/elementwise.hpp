// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "nn/layer.hpp"

namespace lockstep {

/// Element-wise layers without parameters: relu, tanh, sigmoid, gelu, dropout and add. Also flatten and sequence, which
/// only change the shape.

template <Activation activation>
struct ActivationConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};
using ReluConfig = ActivationConfig<Activation::relu>;
using TanhConfig = ActivationConfig<Activation::tanh>;
using SigmoidConfig = ActivationConfig<Activation::sigmoid>;

struct GeluConfig : LayerConfig {
  enum class Approximate { none, tanh };
  Approximate approximate = Approximate::none;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "approximate"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// y = max(x, 0), tanh(x), 1/(1 + e^−x) or x·Φ(x), unless the layer before has taken it over (Layer::fuse).
class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(Activation activation) : activation_(activation) {}

  std::string_view type() const override;
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  LayerTraits traits() const override {
    return {.activation = activation_, .backward_reads_output = !keeps_derivative(activation_)};
  }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  Activation activation_;
};

struct FlattenConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

struct SequenceConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Turns the pixels of images into positions of sequences, row by row: H×W×C becomes (H·W)×C.
class Sequence final : public Layer {
 public:
  std::string_view type() const override { return "sequence"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override { return {.is_view = true}; }
  void forward(const PassContext&, const LayerTensors&) override {}
  void backward(const PassContext&, const LayerTensors&) override {}
};

/// Turns images into vectors of features in the order H, W, C.
class Flatten final : public Layer {
 public:
  std::string_view type() const override { return "flatten"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return {inputs[0].count()}; }
  LayerTraits traits() const override { return {.is_view = true}; }
  void forward(const PassContext&, const LayerTensors&) override {}
  void backward(const PassContext&, const LayerTensors&) override {}
};

struct DropoutConfig : LayerConfig {
  double rate = 0.5;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "rate"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Zeroes a share of the elements in training. The mask does not depend on the number of ranks; see
/// ops/elementwise.hpp.
class Dropout final : public Layer {
 public:
  explicit Dropout(double rate) : rate_(rate) {}

  std::string_view type() const override { return "dropout"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  void apply(const PassContext& context, const Tensor& from, const Tensor& to) const;

  double rate_;
};

struct AddConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// The sum of two or more inputs of one shape, as at the end of a residual branch.
class Add final : public Layer {
 public:
  std::string_view type() const override { return "add"; }
  LayerTraits traits() const override {
    return {.max_inputs = max_layer_inputs,
            .is_sum = true,
            .passes_gradient = LayerTraits::all_inputs,
            .overwrites_gradient = false};
  }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
