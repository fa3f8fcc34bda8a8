// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/layer_norm.hpp"

#include "ops/layer_norm.hpp"

namespace lockstep {

void LayerNormConfig::describe(Fields& fields) { fields.number("epsilon", epsilon, positive, "added to the variance"); }

std::unique_ptr<Layer> LayerNormConfig::make_layer() const { return std::make_unique<LayerNorm>(*this); }

std::vector<ParameterSpec> LayerNorm::parameters(std::span<const Shape> inputs) const {
  const std::int64_t c = inputs[0][-1];
  return {{"weight", {c}, Initializer::constant(1)}, {"bias", {c}, Initializer::constant(0)}};
}

std::size_t LayerNorm::saved_bytes(std::int64_t n, const Shape& output) const {
  return static_cast<std::size_t>(2 * n * (output.count() / output[-1])) * size_of(plan_.master());
}

std::size_t LayerNorm::prepare(std::int64_t n) {
  const std::int64_t c = plan_.output[-1];
  return layer_norm_workspace_bytes(plan_.dtype, n * (plan_.output.count() / c), c);
}

Tensor LayerNorm::moments_in(const Tensor& saved, std::int64_t rows) const {
  return {saved.data, plan_.master(), {rows, 2}};
}

void LayerNorm::forward(const StepContext& context, const LayerTensors& t) {
  const Tensor moments = context.training && t.saved ? moments_in(t.saved, t.y.count() / t.y.shape[-1]) : Tensor{};
  if (t.sum)
    return add_layer_norm_forward(context.space, epsilon_, t.x[0], t.x[1], t.sum, t.parameters[0], t.parameters[1], t.y,
                                  moments);
  layer_norm_forward(context.space, epsilon_, t.x[0], t.parameters[0], t.parameters[1], t.y, moments);
}

void LayerNorm::backward(const StepContext& context, const LayerTensors& t) {
  const Tensor moments = moments_in(t.saved, t.x[0].count() / t.x[0].shape[-1]);
  if (t.gradients[0])
    layer_norm_backward_weight(context.space, t.x[0], moments, t.dy, t.gradients[0], t.gradients[1], context.gradients,
                               t.workspace);
  if (t.dx[0])
    layer_norm_backward_data(context.space, t.x[0], t.parameters[0], moments, t.dy, t.dx[0], t.input_gradient);
}

}  // namespace lockstep
