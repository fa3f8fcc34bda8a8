// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/batch_norm.hpp"

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

}  // namespace lockstep
