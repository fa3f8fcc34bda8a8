// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/elementwise.hpp"

#include "ops/loss/loss.hpp"

namespace lockstep {

template <Activation activation>
std::unique_ptr<Layer> ActivationConfig<activation>::make_layer() const {
  return std::make_unique<ActivationLayer>(activation);
}
template struct ActivationConfig<Activation::relu>;
template struct ActivationConfig<Activation::tanh>;
template struct ActivationConfig<Activation::sigmoid>;

void GeluConfig::describe(Fields& fields) {
  static constexpr std::string_view names[] = {"none", "tanh"};
  fields.choice("approximate", approximate, names, "none: exact, by erf; tanh: the tanh approximation of GPT-2");
}

std::unique_ptr<Layer> GeluConfig::make_layer() const {
  if (approximate == Approximate::tanh) return std::make_unique<PointwiseLayer>(Pointwise::gelu_tanh);
  return std::make_unique<ActivationLayer>(Activation::gelu);
}

std::unique_ptr<Layer> SequenceConfig::make_layer() const { return std::make_unique<Sequence>(); }
std::unique_ptr<Layer> FlattenConfig::make_layer() const { return std::make_unique<Flatten>(); }
std::unique_ptr<Layer> DropoutConfig::make_layer() const { return std::make_unique<Dropout>(rate); }
std::unique_ptr<Layer> AddConfig::make_layer() const { return std::make_unique<Add>(); }

std::string_view ActivationLayer::type() const {
  switch (activation_) {
    case Activation::relu: return "relu";
    case Activation::tanh: return "tanh";
    case Activation::sigmoid: return "sigmoid";
    case Activation::gelu: return "gelu";
    case Activation::none: break;
  }
  return "none";
}

std::size_t ActivationLayer::saved_bytes(std::int64_t n, const Shape& output) const {
  return derivative_bytes(activation_, plan_.dtype, n, output);
}

void ActivationLayer::forward(const PassContext& context, const LayerTensors& t) {
  activation_forward(context.space, activation_, t.x[0], t.y, derivative_of(activation_, context, t));
}

void ActivationLayer::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) activation_backward(context.space, activation_, kept_of(activation_, t), t.dy, t.dx[0]);
}

void DropoutConfig::describe(Fields& fields) {
  fields.number("rate", rate, fraction_below_one, "probability that an element is set to 0", Presence::required);
}

void Dropout::forward(const PassContext& context, const LayerTensors& t) {
  if (context.training) apply(context, t.x[0], t.y);
  else copy(context.space, t.x[0], t.y);
}

void Dropout::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) apply(context, t.dy, t.dx[0]);
}

void Dropout::apply(const PassContext& context, const Tensor& from, const Tensor& to) const {
  const DropoutMask mask{.seed = context.seed,
                         .stream = plan_.number << 40,
                         .step = context.step,
                         .first_element = context.first_example * plan_.output.count(),
                         .rate = rate_};
  dropout(context.space, mask, from, to);
}

Shape Sequence::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 3, ExitStatus::bad_deck,
           "sequence reads images (H×W×C), but its input is {}; give it images", to_string(inputs[0]));
  return {inputs[0][0] * inputs[0][1], inputs[0][2]};
}

Shape Add::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() >= 2, ExitStatus::bad_deck, "add has {} input (it needs two or more); name them: from: [a, b]",
           inputs.size());
  for (const auto& input : inputs)
    validate(input == inputs[0], ExitStatus::bad_deck, "add cannot sum {} and {}; give it inputs of the same shape",
             to_string(inputs[0]), to_string(input));
  return inputs[0];
}

void Add::forward(const PassContext& context, const LayerTensors& t) {
  add(context.space, t.x[0], t.x[1], t.y);
  for (std::size_t i = 2; i < t.x.size(); ++i) accumulate(context.space, t.x[i], t.y);
}

void Add::backward(const PassContext& context, const LayerTensors& t) {
  for (const auto& dx : t.dx)
    if (dx && dx.data != t.dy.data) copy(context.space, t.dy, dx);
}

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

std::unique_ptr<Layer> SoftmaxConfig::make_layer() const { return std::make_unique<Softmax>(); }

void Softmax::forward(const PassContext& context, const LayerTensors& t) {
  softmax_forward(context.space, t.x[0], t.y);
}

void Softmax::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) softmax_backward(context.space, t.y, t.dy, t.dx[0]);
}

}  // namespace lockstep
