// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/pool.hpp"

#include "ops/global_pooling.hpp"
#include "ops/upsample.hpp"

namespace lockstep {

void PoolConfig::describe(Fields& fields) {
  fields.integer("kernel", kernel, {1, max_pool_kernel}, "edge of the square window", Presence::required);
  fields.integer("stride", stride, {1, 1024}, "step between two windows (kernel, when not given)");
  fields.integer("padding", padding, {0, max_pool_kernel / 2},
                 "pixels added on each side; max never takes one, average counts them as zeros");
  fields.check(2 * padding <= kernel, "padding",
               fmt::format("{} is more than half the kernel of {} (a window would see nothing else); use less", padding,
                           kernel));
}

std::unique_ptr<Layer> MaxPoolConfig::make_layer() const { return std::make_unique<Pool>(PoolingKind::max, *this); }
std::unique_ptr<Layer> AvgPoolConfig::make_layer() const { return std::make_unique<Pool>(PoolingKind::average, *this); }
std::unique_ptr<Layer> GlobalAvgPoolConfig::make_layer() const { return std::make_unique<GlobalAvgPool>(); }

PoolingShape Pool::shape_for(std::int64_t n, const Shape& input) const {
  return {n, input[0], input[1], input[2], kernel_, stride_, padding_};
}

Shape Pool::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  validate(input.rank() == 3, ExitStatus::bad_deck, "{} reads images (H×W×C), but its input is {}; give it images",
           type(), to_string(input));
  validate(input[0] + 2 * padding_ >= kernel_ && input[1] + 2 * padding_ >= kernel_, ExitStatus::bad_deck,
           "the window ({}) is larger than its padded input ({}); use a smaller one", kernel_, to_string(input));
  const PoolingShape shape = shape_for(1, input);
  return {shape.out_h(), shape.out_w(), input[2]};
}

std::size_t Pool::saved_bytes(std::int64_t n, const Shape& output) const {
  return kind_ == PoolingKind::max ? static_cast<std::size_t>(n * output.count()) : 0;
}

void Pool::forward(const StepContext& context, const LayerTensors& t) {
  const Tensor winner = context.training && t.saved ? Tensor{t.saved.data, DType::u8, t.y.shape} : Tensor{};
  pooling_forward(context.space, kind_, shape_for(t.y.shape[0], plan_.inputs[0]), t.x[0], t.y, winner);
}

void Pool::backward(const StepContext& context, const LayerTensors& t) {
  if (!t.dx[0]) return;
  const Tensor winner = t.saved ? Tensor{t.saved.data, DType::u8, t.dy.shape} : Tensor{};
  pooling_backward(context.space, kind_, shape_for(t.dy.shape[0], plan_.inputs[0]), winner, t.dy, t.dx[0]);
}

void UpsampleConfig::describe(Fields& fields) { fields.integer("factor", factor, {1, 1024}, "of height and width"); }

std::unique_ptr<Layer> UpsampleConfig::make_layer() const { return std::make_unique<Upsample>(factor); }

Shape Upsample::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 3, ExitStatus::bad_deck,
           "upsample reads images (H×W×C), but its input is {}; give it images", to_string(inputs[0]));
  return {factor_ * inputs[0][0], factor_ * inputs[0][1], inputs[0][2]};
}

void Upsample::forward(const StepContext& context, const LayerTensors& t) {
  upsample_forward(context.space, factor_, t.x[0], t.y);
}

void Upsample::backward(const StepContext& context, const LayerTensors& t) {
  if (t.dx[0]) upsample_backward(context.space, factor_, t.dy, t.dx[0]);
}

Shape GlobalAvgPool::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 3 || inputs[0].rank() == 2, ExitStatus::bad_deck,
           "global_avg_pool reads images (H×W×C) or sequences (T×C), but its input is {}; give it one of these",
           to_string(inputs[0]));
  return {inputs[0][-1]};
}

void GlobalAvgPool::forward(const StepContext& context, const LayerTensors& t) {
  global_average_forward(context.space, t.x[0], t.y);
}

void GlobalAvgPool::backward(const StepContext& context, const LayerTensors& t) {
  if (t.dx[0]) global_average_backward(context.space, t.dy, t.dx[0]);
}

}  // namespace lockstep
