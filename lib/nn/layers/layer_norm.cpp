// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/layer_norm.hpp"

namespace lockstep {

void LayerNormConfig::describe(Fields& fields) {
  fields.number("epsilon", epsilon, positive, "small number added to the variance");
}

std::unique_ptr<Layer> LayerNormConfig::make_layer() const {
  return std::make_unique<LayerNorm>(RowNorm::layer, epsilon);
}

void RmsNormConfig::describe(Fields& fields) {
  fields.number("epsilon", epsilon, positive, "small number added to the mean square");
}

std::unique_ptr<Layer> RmsNormConfig::make_layer() const { return std::make_unique<LayerNorm>(RowNorm::rms, epsilon); }

std::vector<ParameterSpec> LayerNorm::parameters(std::span<const Shape> inputs) const {
  const std::int64_t c = inputs[0][-1];
  std::vector<ParameterSpec> specs{{"weight", {c}, Initializer::constant(1)}};
  if (norm_ == RowNorm::layer) specs.push_back({"bias", {c}, Initializer::constant(0)});
  return specs;
}

std::size_t LayerNorm::saved_bytes(std::int64_t n, const Shape& output) const {
  return static_cast<std::size_t>(2 * n * output.rows()) * size_of(plan_.master());
}

std::size_t LayerNorm::prepare(std::int64_t n) {
  const std::int64_t c = plan_.output[-1];
  return layer_norm_workspace_bytes(plan_.dtype, n * plan_.output.rows(), c);
}

Tensor LayerNorm::moments_in(const Tensor& saved, std::int64_t rows) const {
  return {saved.data, plan_.master(), {rows, 2}};
}

void LayerNorm::forward(const PassContext& context, const LayerTensors& t) {
  const Tensor moments = context.training && t.saved ? moments_in(t.saved, t.y.shape.rows()) : Tensor{};
  const Tensor bias = norm_ == RowNorm::layer ? t.parameters[1] : Tensor{};
  if (t.sum)
    return add_layer_norm_forward(context.space, epsilon_, t.x[0], t.x[1], t.sum, t.parameters[0], bias, t.y, moments,
                                  norm_);
  layer_norm_forward(context.space, epsilon_, t.x[0], t.parameters[0], bias, t.y, moments, norm_);
}

void LayerNorm::backward(const PassContext& context, const LayerTensors& t) {
  const Tensor moments = moments_in(t.saved, t.x[0].shape.rows());
  if (t.gradients[0])
    layer_norm_backward_weight(context.space, t.x[0], moments, t.dy, t.gradients[0],
                               norm_ == RowNorm::layer ? t.gradients[1] : Tensor{}, context.gradients, t.workspace);
  if (t.dx[0])
    layer_norm_backward_data(context.space, t.x[0], t.parameters[0], moments, t.dy, t.dx[0], t.input_gradient, norm_);
}

}  // namespace lockstep
