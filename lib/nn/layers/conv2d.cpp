// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/conv2d.hpp"

#include <algorithm>

#include "ops/bias.hpp"

namespace lockstep {

void Conv2dConfig::describe(Fields& fields) {
  fields.integer("filters", filters, {1, 1e9}, "output channels", Presence::required);
  fields.integer("kernel", kernel, {1, 1024}, "edge of the square kernel", Presence::required);
  fields.integer("stride", stride, {1, 1024}, "step between two places of the kernel");
  fields.integer_or("padding", padding, "same", {0, 1024},
                    "zeros on each side; `same` keeps the image's size (divided by the stride, rounded up)");
  fields.integer("groups", groups, {1, 1e9}, "groups of channels that do not see each other");
  fields.boolean("bias", bias, "whether a bias is added");
  start.describe(fields);
  fields.check(filters % groups == 0, "groups",
               fmt::format("{} filters cannot be cut into {} groups; use a divisor", filters, groups));
}

std::unique_ptr<Layer> Conv2dConfig::make_layer() const { return std::make_unique<Conv2d>(*this); }

ConvolutionShape Conv2d::shape_for(std::int64_t n, const Shape& input) const {
  const std::int64_t low = config_.padding.value_or((config_.kernel - 1) / 2);
  const std::int64_t high = config_.padding.value_or(config_.kernel / 2);
  return {.n = n,
          .h = input[0],
          .w = input[1],
          .c = input[2],
          .filters = config_.filters,
          .kernel_h = config_.kernel,
          .kernel_w = config_.kernel,
          .stride = config_.stride,
          .pad_top = low,
          .pad_left = low,
          .pad_bottom = high,
          .pad_right = high,
          .groups = config_.groups,
          .dtype = plan_.dtype,
          .bias = config_.bias,
          .activation = activation_};
}

Shape Conv2d::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  validate(input.rank() == 3, ExitStatus::bad_deck, "conv2d reads images (H×W×C), but its input is {}; give it images",
           to_string(input));
  validate(input[2] % config_.groups == 0, ExitStatus::bad_deck,
           "{} channels cannot be cut into {} groups; use a divisor", input[2], config_.groups);
  const ConvolutionShape shape = shape_for(1, input);
  validate(shape.h + shape.pad_top + shape.pad_bottom >= shape.kernel_h &&
               shape.w + shape.pad_left + shape.pad_right >= shape.kernel_w,
           ExitStatus::bad_deck, "the kernel ({}) is larger than its padded input ({}); use a smaller one, or padding",
           config_.kernel, to_string(input));
  return {shape.out_h(), shape.out_w(), config_.filters};
}

std::vector<ParameterSpec> Conv2d::parameters(std::span<const Shape> inputs) const {
  const std::int64_t depth = inputs[0][2] / config_.groups;
  const std::int64_t taps = config_.kernel * config_.kernel, fan_in = depth * taps;
  std::vector<ParameterSpec> specs{{"weight",
                                    {config_.filters, depth, config_.kernel, config_.kernel},
                                    config_.start.weight(fan_in, config_.filters / config_.groups * taps)}};
  if (config_.bias) specs.push_back({"bias", {config_.filters}, config_.start.bias(fan_in)});
  return specs;
}

bool Conv2d::fuse(Activation activation) {
  if (keeps_derivative(activation)) return false;
  activation_ = activation;
  return true;
}

std::size_t Conv2d::prepare(std::int64_t n) {
  const Convolution& convolution = convolutions_.prepare(
      n, [&](std::int64_t) { return plan_convolution(plan_.providers, product(n)); });
  const std::int64_t rows = n * plan_.output[0] * plan_.output[1];
  return std::max(convolution.workspace_bytes(), bias_workspace_bytes(plan_.dtype, rows, config_.filters));
}

void Conv2d::forward(const StepContext& context, const LayerTensors& t) {
  convolutions_.at(t.y.shape[0])
      .forward(context.space, t.x[0], config_.bias ? t.parameters[1] : Tensor{}, t.y, t.workspace);
}

void Conv2d::backward(const StepContext& context, const LayerTensors& t) {
  Convolution& convolution = convolutions_.at(t.dy.shape[0]);
  bias_activation_backward(context.space, activation_, t.y, t.dy, config_.bias ? t.gradients[1] : Tensor{},
                           context.gradients, t.workspace);
  if (t.gradients[0])
    convolution.backward_weight(context.space, t.x[0], t.dy, t.gradients[0], context.gradients, t.workspace);
  if (t.dx[0]) convolution.backward_data(context.space, t.dy, t.dx[0], t.workspace);
}

}  // namespace lockstep
