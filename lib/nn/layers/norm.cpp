// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/norm.hpp"

namespace lockstep {

void BatchNormConfig::describe(Fields& fields) {
  fields.number("momentum", momentum, fraction,
                "share of the running mean and variance that each step replaces by its own (PyTorch's momentum)");
  fields.number("epsilon", epsilon, positive, "small number added to the variance");
  fields.boolean(
      "zero_gamma", zero_gamma,
      "whether the weight starts at 0 and not at 1, for the last batch_norm of a residual branch (Goyal et al. 2017)");
}

std::unique_ptr<Layer> BatchNormConfig::make_layer() const { return std::make_unique<BatchNorm>(*this); }

std::vector<ParameterSpec> BatchNorm::parameters(std::span<const Shape> inputs) const {
  const Shape channels{inputs[0][-1]};
  // zero_gamma: Goyal et al., "Accurate, large minibatch SGD", 2017.
  return {{"weight", channels, Initializer::constant(config_.zero_gamma ? 0 : 1)},
          {"bias", channels, Initializer::constant(0)},
          {"running_mean", channels, Initializer::constant(0), ParameterSpec::Kind::statistic},
          {"running_var", channels, Initializer::constant(1), ParameterSpec::Kind::statistic}};
}

LayerTraits BatchNorm::traits() const {
  constexpr LayerTraits::Inputs normalized{0b01}, added{0b10};
  return {.max_inputs = output_.addition ? std::size_t{2} : 1,
          .backward_reads_inputs = normalized,
          .backward_reads_output = output_.relu && output_.addition,
          .is_cheap = !output_.addition,
          .passes_gradient = added,
          .overwrites_gradient = output_.relu,
          .needs_statistics = !frozen_};
}

bool BatchNorm::fuse(Activation activation) {
  if (activation != Activation::relu || output_.relu) return false;
  return output_.relu = true;
}

bool BatchNorm::fuse_addition() {
  if (output_.relu || output_.addition) return false;
  return output_.addition = true;
}

void BatchNorm::allocate() {
  const std::int64_t c = plan_.output[-1];
  memory_ = OwnedTensor("lockstep::batch_norm::state", plan_.master(), {7, c});
  // mean and m2 must be adjacent, as must sum_dy and sum_dy_x: see BatchStatistics.
  Tensor* const members[] = {&state_.mean,  &state_.m2,     &state_.inv_std, &state_.scale,
                             &state_.shift, &state_.sum_dy, &state_.sum_dy_x};
  auto* place = static_cast<std::byte*>(memory_.get().data);
  for (Tensor* member : members) {
    *member = {place, plan_.master(), {c}};
    place += member->bytes();
  }
  statistics_ = {0, {state_.mean.data, plan_.master(), {2, c}}, {state_.sum_dy.data, plan_.master(), {2, c}}};
}

std::size_t BatchNorm::prepare(std::int64_t n) {
  const std::int64_t c = plan_.output[-1];
  return batch_norm_workspace_bytes(plan_.dtype, n * plan_.output.rows(), c);
}

void BatchNorm::accumulate_statistics(const PassContext& context, const LayerTensors& t, bool first) {
  if (!context.training) return;
  if (first) statistics_.rows = 0;
  batch_norm_observe(context.space, t.x[0], statistics_.rows, state_, t.workspace);
  statistics_.rows += t.x[0].shape.rows();
}

void BatchNorm::finalize_statistics(const PassContext& context, std::int64_t) {
  if (context.training) batch_norm_conclude(context.space, statistics_.rows, config_.epsilon, state_);
}

void BatchNorm::forward(const PassContext& context, const LayerTensors& t) {
  if (context.training && !frozen_) batch_norm_coefficients(context.space, t.parameters[0], t.parameters[1], state_);
  else
    batch_norm_coefficients(context.space, t.parameters[0], t.parameters[1], t.parameters[2], t.parameters[3],
                            config_.epsilon, state_);
  batch_norm_forward(context.space, t.x[0], output_.addition ? t.x[1] : Tensor{}, state_, output_, t.y);
}

void BatchNorm::accumulate_gradient_statistics(const PassContext& context, const LayerTensors& t, bool first) {
  batch_norm_observe_backward(context.space, t.x[0], t.y, output_, first, t.dy, state_, t.workspace);
  pass_on(context, t);
}

void BatchNorm::finalize_gradient_statistics(const PassContext& context, const LayerTensors& t, std::int64_t n) {
  batch_norm_conclude_backward(context.space, statistics_.rows, n, config_.momentum, t.parameters[2], t.parameters[3],
                               state_, context.gradients,
                               {t.gradients[0], t.gradients[1], t.gradients[2], t.gradients[3]});
}

void BatchNorm::backward(const PassContext& context, const LayerTensors& t) {
  if (frozen_) {
    batch_norm_backward_fixed(context.space, t.x[0], t.y, output_, t.dy, state_, t.dx[0]);
    pass_on(context, t);
  } else if (t.dx[0]) {
    batch_norm_backward(context.space, statistics_.rows, t.x[0], output_, t.dy, state_, t.dx[0]);
  }
}

void BatchNorm::pass_on(const PassContext& context, const LayerTensors& t) const {
  if (output_.addition && t.dx[1] && t.dx[1].data != t.dy.data) copy(context.space, t.dy, t.dx[1]);
}

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
