// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/group_norm.hpp"

#include "ops/norm/norm.hpp"

namespace lockstep {

void GroupNormConfig::describe(Fields& fields) {
  fields.integer("groups", groups, {1, 1e9}, "number of groups of channels, each of which is normalized separately",
                 Presence::required);
  fields.number("epsilon", epsilon, positive, "small number added to the variance");
}

std::unique_ptr<Layer> GroupNormConfig::make_layer() const { return std::make_unique<GroupNorm>(*this); }

Shape GroupNorm::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0][-1] % groups_ == 0, ExitStatus::bad_deck,
           "{} channels cannot be divided evenly into {} groups; use a divisor", inputs[0][-1], groups_);
  return inputs[0];
}

std::vector<ParameterSpec> GroupNorm::parameters(std::span<const Shape> inputs) const {
  const std::int64_t c = inputs[0][-1];
  return {{"weight", {c}, Initializer::constant(1)}, {"bias", {c}, Initializer::constant(0)}};
}

std::size_t GroupNorm::saved_bytes(std::int64_t n, const Shape& output) const {
  return static_cast<std::size_t>(2 * n * output[-1]) * size_of(plan_.master());
}

std::size_t GroupNorm::prepare(std::int64_t n) { return group_norm_workspace_bytes(plan_.dtype, n, plan_.output); }

Tensor GroupNorm::moments_in(const Tensor& saved, std::int64_t n) const {
  return {saved.data, plan_.master(), {n, 2, plan_.output[-1]}};
}

void GroupNorm::forward(const PassContext& context, const LayerTensors& t) {
  const Tensor moments = context.training && t.saved ? moments_in(t.saved, t.y.shape[0]) : Tensor{};
  group_norm_forward(context.space, groups_, epsilon_, t.x[0], t.parameters[0], t.parameters[1], t.y, moments,
                     t.workspace);
}

void GroupNorm::backward(const PassContext& context, const LayerTensors& t) {
  group_norm_backward(context.space, groups_, t.x[0], t.parameters[0], moments_in(t.saved, t.dy.shape[0]), t.dy,
                      t.dx[0], t.gradients[0], t.gradients[1], context.gradients, t.workspace);
}

}  // namespace lockstep
