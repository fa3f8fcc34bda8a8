// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "nn/layer.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

// A layer that applies an activation keeps its derivative in the layer's saved memory, if backward needs it
// (keeps_derivative).

inline std::size_t derivative_bytes(Activation activation, DType dtype, std::int64_t n, const Shape& output) {
  return keeps_derivative(activation) ? static_cast<std::size_t>(n * output.count()) * size_of(dtype) : 0;
}

/// The tensor in which forward stores the derivative; empty if no backward pass follows.
inline Tensor derivative_of(Activation activation, const PassContext& context, const LayerTensors& t) {
  return keeps_derivative(activation) && context.training && t.saved ? Tensor{t.saved.data, t.y.dtype, t.y.shape}
                                                                     : Tensor{};
}

/// The tensor from which backward computes the derivative: the kept derivative, or the output.
inline Tensor kept_of(Activation activation, const LayerTensors& t) {
  return keeps_derivative(activation) ? Tensor{t.saved.data, t.dy.dtype, t.dy.shape} : t.y;
}

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
/// ops/elementwise/elementwise.hpp.
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

struct SiluConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

struct LeakyReluConfig : LayerConfig {
  double slope = 0.01;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "slope"; }
  std::unique_ptr<Layer> make_layer() const override;
};

struct EluConfig : LayerConfig {
  double alpha = 1;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "alpha"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// An element-wise function whose backward pass reads its input again: see Pointwise.
class PointwiseLayer final : public Layer {
 public:
  explicit PointwiseLayer(Pointwise function, double a = 0) : function_(function), a_(a) {}

  std::string_view type() const override;
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  LayerTraits traits() const override { return {.backward_reads_inputs = LayerTraits::all_inputs, .is_cheap = true}; }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  Pointwise function_;
  double a_;
};

struct MultiplyConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// The element-wise product of two inputs of one shape, as used in gates.
class Multiply final : public Layer {
 public:
  std::string_view type() const override { return "multiply"; }
  LayerTraits traits() const override { return {.max_inputs = 2, .backward_reads_inputs = LayerTraits::all_inputs}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

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
