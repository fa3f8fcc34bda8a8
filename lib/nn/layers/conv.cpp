// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/conv.hpp"

#include <algorithm>

#include "nn/layers/axes.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

void ConvConfig::describe(Fields& fields) {
  static constexpr const char* edges[] = {"kernel size in positions", "side of the square kernel",
                                          "side of the cubic kernel"};
  fields.integer("filters", filters, {1, 1e9}, "number of output channels", Presence::required);
  fields.integer("kernel", kernel, {1, 1024}, edges[dimensions - 1], Presence::required);
  fields.integer("stride", stride, {1, 1024}, "stride of the kernel");
  fields.integer_or(
      "padding", padding, "same", {0, 1024},
      "number of zeros added on each side; same: kernel − 1 in total, the smaller half first, which makes "
      "the output as large as the input divided by the stride, rounded up (TensorFlow's same also "
      "depends on the size, and adds max(0, (⌈h/s⌉ − 1)·s + k − h) in total)");
  fields.integer("groups", groups, {1, 1e9}, "number of groups of channels, each of which is convolved separately");
  fields.boolean("bias", bias, "whether a bias is added");
  start.describe(fields);
  fields.check(filters % groups == 0, "groups",
               fmt::format("{} filters cannot be divided evenly into {} groups; use a divisor", filters, groups));
}

std::unique_ptr<Layer> ConvConfig::make_layer() const { return std::make_unique<Conv>(*this); }

std::string_view Conv::type() const {
  static constexpr std::string_view types[] = {"conv1d", "conv2d", "conv3d"};
  return types[config_.dimensions - 1];
}

DepthColumnsShape Conv::depth_for(std::int64_t n, const Shape& input) const {
  return {.n = n,
          .depth = input[0],
          .slice = input[1] * input[2],
          .c = input[3],
          .kernel = config_.kernel,
          .stride = config_.stride,
          .pad_front = pad_before(),
          .pad_back = pad_after()};
}

ConvolutionShape Conv::shape_for(std::int64_t n, const Shape& input) const {
  const bool flat = config_.dimensions == 1, deep = config_.dimensions == 3;
  return {.n = deep ? n * depth_for(n, input).out_depth() : n,
          .h = flat ? 1 : input[-3],
          .w = input[-2],
          .c = deep ? input[-1] * config_.kernel : input[-1],
          .filters = config_.filters,
          .kernel_h = flat ? 1 : config_.kernel,
          .kernel_w = config_.kernel,
          .stride = config_.stride,
          .pad_top = flat ? 0 : pad_before(),
          .pad_left = pad_before(),
          .pad_bottom = flat ? 0 : pad_after(),
          .pad_right = pad_after(),
          .groups = config_.groups,
          .dtype = plan_.dtype,
          .bias = config_.bias,
          .activation = activation_};
}

Shape Conv::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  check_spatial(type(), config_.dimensions, input);
  validate(input[-1] % config_.groups == 0, ExitStatus::bad_deck,
           "{} channels cannot be divided evenly into {} groups; use a divisor", input[-1], config_.groups);
  const auto space = input.extents().first(static_cast<std::size_t>(config_.dimensions));
  validate(*std::ranges::min_element(space) + pad_before() + pad_after() >= config_.kernel, ExitStatus::bad_deck,
           "the kernel ({}) is larger than its input ({}) plus padding; use a smaller one, or more padding",
           config_.kernel, to_string(input));
  const ConvolutionShape shape = shape_for(1, input);
  switch (config_.dimensions) {
    case 1: return {shape.out_w(), config_.filters};
    case 2: return {shape.out_h(), shape.out_w(), config_.filters};
    default: return {shape.n, shape.out_h(), shape.out_w(), config_.filters};
  }
}

std::vector<ParameterSpec> Conv::parameters(std::span<const Shape> inputs) const {
  std::vector<std::int64_t> extents{config_.filters, inputs[0][-1] / config_.groups};
  std::int64_t taps = 1;
  for (int i = 0; i < config_.dimensions; ++i) {
    extents.push_back(config_.kernel);
    taps *= config_.kernel;
  }
  // PyTorch derives the fans from the weight's extents alone: groups divide fan_in but not fan_out.
  const std::int64_t fan_in = extents[1] * taps;
  std::vector<ParameterSpec> specs{
      {"weight", Shape(std::span(extents)), config_.start.weight(fan_in, config_.filters * taps)}};
  if (config_.bias) specs.push_back({"bias", {config_.filters}, config_.start.bias(fan_in)});
  return specs;
}

bool Conv::fuse(Activation activation) {
  if (keeps_derivative(activation)) return false;
  activation_ = activation;
  return true;
}

Tensor Conv::take_columns(ScratchAllocator& workspace, std::int64_t n) const {
  if (config_.dimensions < 3) return {};
  const ConvolutionShape shape = product(n);
  return workspace.take(plan_.dtype, {shape.n, shape.h, shape.w, shape.c});
}

std::size_t Conv::prepare(std::int64_t n) {
  const Convolution& convolution = convolutions_.prepare(
      product(n).n, [&](std::int64_t) { return plan_convolution(plan_.providers, product(n)); });
  const std::int64_t rows = n * (plan_.output.count() / config_.filters);
  ScratchAllocator workspace;
  take_columns(workspace, n);
  return std::max(workspace.used() + convolution.workspace_bytes(),
                  bias_workspace_bytes(plan_.dtype, rows, config_.filters));
}

void Conv::forward(const PassContext& context, const LayerTensors& t) {
  const std::int64_t n = t.y.shape[0];
  ScratchAllocator workspace(t.workspace);
  const Tensor columns = take_columns(workspace, n);
  if (columns) depth_columns_forward(context.space, depth_for(n, plan_.inputs[0]), t.x[0], columns);
  convolutions_.at(product(n).n)
      .forward(context.space, columns ? columns : t.x[0], config_.bias ? t.parameters[1] : Tensor{}, t.y,
               workspace.rest());
}

void Conv::backward(const PassContext& context, const LayerTensors& t) {
  bias_activation_backward(context.space, activation_, t.y, t.dy, config_.bias ? t.gradients[1] : Tensor{},
                           context.gradients, t.workspace);
  const std::int64_t n = t.dy.shape[0];
  Convolution& convolution = convolutions_.at(product(n).n);
  ScratchAllocator workspace(t.workspace);
  const Tensor columns = take_columns(workspace, n);
  if (t.gradients[0]) {
    if (columns) depth_columns_forward(context.space, depth_for(n, plan_.inputs[0]), t.x[0], columns);
    convolution.backward_weight(context.space, columns ? columns : t.x[0], t.dy, t.gradients[0], context.gradients,
                                workspace.rest());
  }
  if (!t.dx[0]) return;
  convolution.backward_data(context.space, t.dy, columns ? columns : t.dx[0], workspace.rest());
  if (columns) depth_columns_backward(context.space, depth_for(n, plan_.inputs[0]), columns, t.dx[0]);
}

void ConvTranspose2dConfig::describe(Fields& fields) {
  fields.integer("filters", filters, {1, 1e9}, "number of output channels", Presence::required);
  fields.integer("kernel", kernel, {1, 1024}, "side of the square kernel", Presence::required);
  fields.integer("stride", stride, {1, 1024},
                 "stride: distance in the output between neighbouring pixels of the input");
  fields.integer("padding", padding, {0, 1024}, "number of pixels that are cut off on each side of the output");
  fields.integer("output_padding", output_padding, {0, 1023},
                 "number of rows added at the bottom, and of columns added on the right, of the output");
  fields.integer("groups", groups, {1, 1e9}, "number of groups of channels, each of which is convolved separately");
  fields.boolean("bias", bias, "whether a bias is added");
  start.describe(fields);
  fields.check(filters % groups == 0, "groups",
               fmt::format("{} filters cannot be divided evenly into {} groups; use a divisor", filters, groups));
  fields.check(output_padding < stride, "output_padding",
               fmt::format("{} is not less than the stride of {} (output rows would receive no input pixel); use less",
                           output_padding, stride));
}

std::unique_ptr<Layer> ConvTranspose2dConfig::make_layer() const { return std::make_unique<ConvTranspose2d>(*this); }

Shape ConvTranspose2d::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  check_spatial(type(), 2, input);
  validate(input[2] % config_.groups == 0, ExitStatus::bad_deck,
           "{} channels cannot be divided evenly into {} groups; use a divisor", input[2], config_.groups);
  const auto extent = [&](std::int64_t of_input) {
    return (of_input - 1) * config_.stride - 2 * config_.padding + config_.kernel + config_.output_padding;
  };
  const Shape output{extent(input[0]), extent(input[1]), config_.filters};
  validate(output[0] > 0 && output[1] > 0, ExitStatus::bad_deck,
           "a padding of {} leaves no output for an input of {} (kernel {}, stride {}); use less", config_.padding,
           to_string(input), config_.kernel, config_.stride);
  return output;
}

std::vector<ParameterSpec> ConvTranspose2d::parameters(std::span<const Shape> inputs) const {
  const std::int64_t channels = inputs[0][2], depth = config_.filters / config_.groups;
  // As in PyTorch, the fans are those of a convolution with this weight.
  const std::int64_t taps = config_.kernel * config_.kernel, fan_in = depth * taps;
  std::vector<ParameterSpec> specs{
      {"weight", {channels, depth, config_.kernel, config_.kernel}, config_.start.weight(fan_in, channels * taps)}};
  if (config_.bias) specs.push_back({"bias", {config_.filters}, config_.start.bias(fan_in)});
  return specs;
}

bool ConvTranspose2d::fuse(Activation activation) {
  if (keeps_derivative(activation)) return false;
  activation_ = activation;
  return true;
}

ConvolutionShape ConvTranspose2d::product(std::int64_t n) const {
  return {.n = n,
          .h = plan_.output[0],
          .w = plan_.output[1],
          .c = config_.filters,
          .filters = plan_.inputs[0][2],
          .kernel_h = config_.kernel,
          .kernel_w = config_.kernel,
          .stride = config_.stride,
          .pad_top = config_.padding,
          .pad_left = config_.padding,
          .pad_bottom = config_.padding,
          .pad_right = config_.padding,
          .groups = config_.groups,
          .dtype = plan_.dtype,
          .bias = false};
}

std::size_t ConvTranspose2d::prepare(std::int64_t n) {
  const Convolution& adjoint = adjoints_.prepare(
      n, [&](std::int64_t) { return plan_convolution(plan_.providers, product(n)); });
  const std::int64_t rows = n * plan_.output[0] * plan_.output[1];
  return std::max(adjoint.workspace_bytes(), bias_workspace_bytes(plan_.dtype, rows, config_.filters));
}

void ConvTranspose2d::forward(const PassContext& context, const LayerTensors& t) {
  adjoints_.at(t.y.shape[0]).backward_data(context.space, t.x[0], t.y, t.workspace);
  bias_activation_forward(context.space, config_.bias ? t.parameters[1] : Tensor{}, activation_, t.y);
}

void ConvTranspose2d::backward(const PassContext& context, const LayerTensors& t) {
  Convolution& adjoint = adjoints_.at(t.dy.shape[0]);
  bias_activation_backward(context.space, activation_, t.y, t.dy, config_.bias ? t.gradients[1] : Tensor{},
                           context.gradients, t.workspace);
  if (t.gradients[0])
    adjoint.backward_weight(context.space, t.dy, t.x[0], t.gradients[0], context.gradients, t.workspace);
  if (t.dx[0]) adjoint.forward(context.space, t.dy, {}, t.dx[0], t.workspace);
}

}  // namespace lockstep
