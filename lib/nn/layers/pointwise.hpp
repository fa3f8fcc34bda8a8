// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "nn/layer.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

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

/// An element-wise function whose backward pass reads its input again: see ops/pointwise.hpp.
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

}  // namespace lockstep
