// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/linear.hpp"

#include <algorithm>
#include <cmath>

#include "nn/layers/elementwise.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

void WeightInit::describe(Fields& fields) {
  static constexpr std::string_view kinds[] = {"fan_in", "he", "glorot"};
  fields.choice(
      "initializer", kind, kinds,
      "initial weight: fan_in (uniform in ±1/√fan_in, the bias too, as in PyTorch), he (N(0, 2/fan_in), for use before "
      "relu) or glorot (uniform in ±√(6/(fan_in + fan_out)), before tanh); he and glorot set the bias to 0");
  fields.number("initial_std", std, {0, 1e6},
                "standard deviation of the initial weight, N(0, initial_std²) with a bias of 0, in place of "
                "initializer (0: as initializer says)");
  fields.check(std == 0 || kind == Kind::fan_in, "initial_std",
               "cannot be combined with initializer (both set the initial weight); remove one of them");
}

Initializer WeightInit::weight(std::int64_t fan_in, std::int64_t fan_out) const {
  if (std > 0) return Initializer::normal(std);
  switch (kind) {
    case Kind::fan_in: return Initializer::fan_in(fan_in);
    case Kind::he: return Initializer::normal(::std::sqrt(2.0 / static_cast<double>(fan_in)));
    case Kind::glorot: return Initializer::uniform(::std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
  }
  return {};
}

Initializer WeightInit::bias(std::int64_t fan_in) const {
  return std > 0 || kind != Kind::fan_in ? Initializer::constant(0) : Initializer::fan_in(fan_in);
}

void LinearConfig::describe(Fields& fields) {
  fields.integer("features", features, {1, 1e9}, "number of outputs", Presence::required);
  fields.boolean("bias", bias, "whether a bias is added");
  start.describe(fields);
  fields.text("tied_to", tied_to,
              "name of an earlier embedding whose weight this layer shares; the inputs are then the embedding's "
              "features, and the outputs its vocabulary");
  fields.check(
      tied_to.empty() || (start.kind == WeightInit::Kind::fan_in && start.std == 0), "tied_to",
      "cannot be combined with initializer or initial_std (the weight is the embedding's); remove one of them");
}

std::unique_ptr<Layer> LinearConfig::make_layer() const { return std::make_unique<Linear>(*this); }

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  validate(input.rank() == 1 || input.rank() == 2, ExitStatus::bad_deck,
           "linear reads vectors, but its input is {}; put a flatten before it", to_string(input));
  return input.rank() == 2 ? Shape{input[0], features_} : Shape{features_};
}

std::vector<ParameterSpec> Linear::parameters(std::span<const Shape> inputs) const {
  const std::int64_t in = inputs[0][-1];
  std::vector<ParameterSpec> specs{
      {.name = "weight", .shape = {features_, in}, .initializer = start_.weight(in, features_), .tied_to = tied_to_}};
  if (bias_) specs.push_back({"bias", {features_}, start_.bias(in)});
  return specs;
}

bool Linear::fuse(Activation activation) {
  activation_ = activation;
  return true;
}

InnerProductShape Linear::shape_for(std::int64_t rows) const {
  InnerProductShape shape{rows, plan_.inputs[0][-1], features_, plan_.dtype, bias_, activation_};
  if (keeps_derivative(activation_))
    shape.bias = false, shape.activation = Activation::none;  // one separate pass follows the product
  return shape;
}

std::size_t Linear::saved_bytes(std::int64_t n, const Shape& output) const {
  return derivative_bytes(activation_, plan_.dtype, n, output);
}

std::size_t Linear::prepare(std::int64_t n) {
  const InnerProduct& product = products_.prepare(
      rows(n), [&](std::int64_t all) { return plan_inner_product(plan_.providers, shape_for(all)); });
  return std::max(product.workspace_bytes(), bias_workspace_bytes(plan_.dtype, rows(n), features_));
}

void Linear::forward(const PassContext& context, const LayerTensors& t) {
  const Tensor bias = bias_ ? t.parameters[1] : Tensor{};
  const bool later = keeps_derivative(activation_);
  products_.at(rows(t.y.shape[0])).forward(context.space, t.x[0], later ? Tensor{} : bias, t.y, t.workspace);
  if (later) bias_activation_forward(context.space, bias, activation_, t.y, derivative_of(activation_, context, t));
}

void Linear::backward(const PassContext& context, const LayerTensors& t) {
  InnerProduct& product = products_.at(rows(t.dy.shape[0]));
  bias_activation_backward(context.space, activation_, kept_of(activation_, t), t.dy, bias_ ? t.gradients[1] : Tensor{},
                           context.gradients, t.workspace);
  if (t.gradients[0])
    product.backward_weight(context.space, t.x[0], t.dy, t.gradients[0], context.gradients, t.workspace);
  if (t.dx[0]) product.backward_data(context.space, t.dy, t.dx[0], t.workspace);
}

}  // namespace lockstep
