// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/pointwise.hpp"

namespace lockstep {

std::unique_ptr<Layer> SiluConfig::make_layer() const { return std::make_unique<PointwiseLayer>(Pointwise::silu); }

void LeakyReluConfig::describe(Fields& fields) { fields.number("slope", slope, any_number, "slope below 0"); }

std::unique_ptr<Layer> LeakyReluConfig::make_layer() const {
  return std::make_unique<PointwiseLayer>(Pointwise::leaky_relu, slope);
}

void EluConfig::describe(Fields& fields) {
  fields.number("alpha", alpha, any_number, "scale below 0, where the output tends to −alpha");
}

std::unique_ptr<Layer> EluConfig::make_layer() const { return std::make_unique<PointwiseLayer>(Pointwise::elu, alpha); }

std::unique_ptr<Layer> MultiplyConfig::make_layer() const { return std::make_unique<Multiply>(); }

std::string_view PointwiseLayer::type() const {
  switch (function_) {
    case Pointwise::silu: return "silu";
    case Pointwise::leaky_relu: return "leaky_relu";
    case Pointwise::elu: return "elu";
    case Pointwise::gelu_tanh: break;
  }
  return "gelu";
}

void PointwiseLayer::forward(const PassContext& context, const LayerTensors& t) {
  pointwise_forward(context.space, function_, a_, t.x[0], t.y);
}

void PointwiseLayer::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) pointwise_backward(context.space, function_, a_, t.x[0], t.dy, t.dx[0]);
}

Shape Multiply::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() == 2, ExitStatus::bad_deck, "multiply has {} input (it needs two); name them: from: [a, b]",
           inputs.size());
  validate(inputs[0] == inputs[1], ExitStatus::bad_deck,
           "multiply cannot combine {} and {}; give it inputs of the same shape", to_string(inputs[0]),
           to_string(inputs[1]));
  return inputs[0];
}

void Multiply::forward(const PassContext& context, const LayerTensors& t) {
  multiply(context.space, t.x[0], t.x[1], t.y);
}

void Multiply::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0] || t.dx[1]) multiply_backward(context.space, t.x[0], t.x[1], t.dy, t.dx[0], t.dx[1]);
}

}  // namespace lockstep
