// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/shape.hpp"

#include <algorithm>
#include <numeric>

#include "nn/layers/axes.hpp"

namespace lockstep {

std::unique_ptr<Layer> ReshapeConfig::make_layer() const { return std::make_unique<Reshape>(shape); }
std::unique_ptr<Layer> PermuteConfig::make_layer() const { return std::make_unique<Permute>(order); }
std::unique_ptr<Layer> SliceConfig::make_layer() const { return std::make_unique<Slice>(*this); }
std::unique_ptr<Layer> PatchifyConfig::make_layer() const { return std::make_unique<Patchify>(patch); }

StridedGrid Rearrangement::grid_of(std::int64_t n) const {
  StridedGrid grid;
  grid.add(n, plan_.inputs[0].count(), plan_.output.count());
  add_axes(plan_.inputs[0], grid);
  return grid;
}

void Rearrangement::forward(const PassContext& context, const LayerTensors& t) {
  strided_copy(context.space, grid_of(t.y.shape[0]), t.x[0], t.y);
}

void Rearrangement::backward(const PassContext& context, const LayerTensors& t) {
  if (!t.dx[0]) return;
  if (t.dx[0].count() > t.dy.count()) fill_zero(context.space, t.dx[0]);
  strided_copy(context.space, grid_of(t.dy.shape[0]).reversed(), t.dy, t.dx[0]);
}

void ReshapeConfig::describe(Fields& fields) {
  fields.integers("shape", shape, {1, 1e9},
                  "shape of an example's output, as [7, 7, 64], with as many elements as the input");
  fields.check(!shape.empty() && shape.size() <= most_axes, "shape",
               fmt::format("has {} extents (1 to {} are allowed); write it like [7, 7, 64]", shape.size(), most_axes));
}

Shape Reshape::output_shape(std::span<const Shape> inputs) const {
  validate(shape_.count() == inputs[0].count(), ExitStatus::bad_deck,
           "{} ({} values) cannot be reshaped to {} ({} values); give a shape with the same number of values",
           to_string(inputs[0]), inputs[0].count(), to_string(shape_), shape_.count());
  return shape_;
}

void PermuteConfig::describe(Fields& fields) {
  fields.integers("order", order, {0, most_axes - 1},
                  "for each axis of the output, the axis of the input that it is, from 0; [1, 0] is the transpose");
  std::vector<std::int64_t> sorted = order, axes(order.size());
  std::ranges::sort(sorted);
  std::iota(axes.begin(), axes.end(), 0);
  fields.check(!order.empty() && sorted == axes, "order",
               "does not name each axis once (0 is the first); write it like [1, 0] or [2, 0, 1]");
}

Shape Permute::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  validate(order_.size() == static_cast<std::size_t>(input.rank()), ExitStatus::bad_deck,
           "permute has an order of {} axes, but its input, {}, has {}; name each of them", order_.size(),
           to_string(input), input.rank());
  std::vector<std::int64_t> extents;
  for (const auto axis : order_) extents.push_back(input[static_cast<int>(axis)]);
  return Shape(std::span<const std::int64_t>(extents));
}

void Permute::add_axes(const Shape& input, StridedGrid& grid) const {
  std::int64_t y_step = plan_.output.count();
  for (const auto number : order_) {
    const int axis = static_cast<int>(number);
    y_step /= input[axis];
    grid.add(input[axis], step_of(input, axis), y_step);
  }
}

void SliceConfig::describe(Fields& fields) {
  fields.integer("axis", axis, axis_range, axis_help);
  fields.integer("begin", begin, {-1e9, 1e9}, "first index that is kept; a negative one counts from the end");
  fields.integer(
      "end", end, {-1e9, 1e9},
      "index after the last one that is kept; a negative one counts from the end (when not given: up to the end)");
}

Shape Slice::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  const int axis = axis_of(input, config_.axis, type());
  const std::int64_t extent = input[axis];
  const Bounds kept = kept_of(input);
  validate(
      kept.begin >= 0 && kept.begin < kept.end && kept.end <= extent, ExitStatus::bad_deck,
      "slice keeps indices {} to {} of axis {} of {}, whose indices are 0 to {} (the output would be empty, or out of "
      "range); choose begin below end, both from 0 to {}",
      kept.begin, kept.end - 1, axis, to_string(input), extent - 1, extent);
  std::vector<std::int64_t> extents(input.extents().begin(), input.extents().end());
  extents[static_cast<std::size_t>(axis)] = kept.end - kept.begin;
  return Shape(std::span<const std::int64_t>(extents));
}

Slice::Bounds Slice::kept_of(const Shape& input) const {
  const std::int64_t extent = input[axis_of(input, config_.axis, type())];
  const auto place = [&](std::int64_t given) { return given < 0 ? given + extent : given; };
  return {place(config_.begin), place(config_.end.value_or(extent))};
}

std::optional<std::int64_t> Slice::contiguous_offset(const Shape& input) const {
  if (axis_of(input, config_.axis, type()) != 0) return std::nullopt;
  return kept_of(input).begin * step_of(input, 0);
}

void Slice::add_axes(const Shape& input, StridedGrid& grid) const {
  const int sliced = axis_of(input, config_.axis, type());
  grid.x_first = kept_of(input).begin * step_of(input, sliced);
  for (int axis = 0; axis < input.rank(); ++axis)
    grid.add(plan_.output[axis], step_of(input, axis), step_of(plan_.output, axis));
}

void PatchifyConfig::describe(Fields& fields) {
  fields.integer("patch", patch, {1, 1e5},
                 "height and width of a patch in pixels; each patch becomes a position of the sequence",
                 Presence::required);
}

Shape Patchify::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  validate(input.rank() == 3, ExitStatus::bad_deck,
           "patchify reads images (H×W×C), but its input is {}; give it images", to_string(input));
  validate(input[0] % patch_ == 0 && input[1] % patch_ == 0, ExitStatus::bad_deck,
           "images of {} cannot be cut into patches of {}×{}; use a divisor of their height and width",
           to_string(input), patch_, patch_);
  return {input[0] / patch_ * (input[1] / patch_), patch_ * patch_ * input[2]};
}

void Patchify::add_axes(const Shape& input, StridedGrid& grid) const {
  const std::int64_t row = input[1] * input[2], patch_row = patch_ * input[2], patch = patch_ * patch_row;
  grid.add(input[0] / patch_, patch_ * row, input[1] / patch_ * patch);
  grid.add(input[1] / patch_, patch_row, patch);
  grid.add(patch_, row, patch_row);
  grid.add(patch_row, 1, 1);
}

std::unique_ptr<Layer> ConcatConfig::make_layer() const { return std::make_unique<Concat>(); }

Shape Concat::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() >= 2, ExitStatus::bad_deck,
           "concat has {} input (it needs two or more); name them: from: [a, b]", inputs.size());
  const auto outer = [](const Shape& shape) {
    return shape.extents().first(static_cast<std::size_t>(shape.rank() - 1));
  };
  std::int64_t features = 0;
  for (const auto& input : inputs) {
    validate(std::ranges::equal(outer(input), outer(inputs[0])), ExitStatus::bad_deck,
             "concat cannot join {} and {} (only the last extent may differ); give it inputs that match in all others",
             to_string(inputs[0]), to_string(input));
    features += input[-1];
  }
  std::vector<std::int64_t> extents(inputs[0].extents().begin(), inputs[0].extents().end());
  extents.back() = features;
  return Shape(extents);
}

void Concat::forward(const PassContext& context, const LayerTensors& t) {
  std::int64_t first = 0;
  for (const auto& x : t.x) {
    concat_place(context.space, x, first, t.y);
    first += x.shape[-1];
  }
}

void Concat::backward(const PassContext& context, const LayerTensors& t) {
  std::int64_t first = 0;
  for (std::size_t k = 0; k < t.dx.size(); ++k) {
    if (t.dx[k]) concat_take(context.space, t.dy, first, t.dx[k]);
    first += plan_.inputs[k][-1];
  }
}

void ReduceConfig::describe(Fields& fields) {
  fields.integers("axes", axes, axis_range, axis_help);
  fields.check(!axes.empty(), "axes", "the list is empty; name the axes, such as [0] or [0, 1]");
}

std::unique_ptr<Layer> SumConfig::make_layer() const { return std::make_unique<Reduce>(Reduce::Of::sum, axes); }
std::unique_ptr<Layer> MeanConfig::make_layer() const { return std::make_unique<Reduce>(Reduce::Of::mean, axes); }

std::vector<bool> Reduce::summed(const Shape& input) const {
  std::vector<bool> found(static_cast<std::size_t>(input.rank()));
  for (const auto given : axes_) {
    const int axis = axis_of(input, given, type());
    validate(!found[static_cast<std::size_t>(axis)], ExitStatus::bad_deck,
             "{} names axis {} of {} twice; name each once", type(), axis, to_string(input));
    found[static_cast<std::size_t>(axis)] = true;
  }
  return found;
}

Shape Reduce::output_shape(std::span<const Shape> inputs) const {
  const std::vector<bool> gone = summed(inputs[0]);
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < gone.size(); ++axis)
    if (!gone[axis]) extents.push_back(inputs[0][static_cast<int>(axis)]);
  if (extents.empty()) extents.push_back(1);
  return Shape(std::span<const std::int64_t>(extents));
}

StridedGrid Reduce::grid_of(std::int64_t n) const {
  const Shape& input = plan_.inputs[0];
  const std::vector<bool> gone = summed(input);
  StridedGrid grid;
  grid.add(n, input.count(), plan_.output.count());
  std::int64_t y_step = plan_.output.count();
  for (int axis = 0; axis < input.rank(); ++axis) {
    const bool kept = !gone[static_cast<std::size_t>(axis)];
    if (kept) y_step /= input[axis];
    grid.add(input[axis], step_of(input, axis), kept ? y_step : 0);
  }
  return grid;
}

double Reduce::factor() const {
  if (of_ == Of::sum) return 1;
  return static_cast<double>(plan_.output.count()) / static_cast<double>(plan_.inputs[0].count());
}

void Reduce::forward(const PassContext& context, const LayerTensors& t) {
  strided_sum(context.space, grid_of(t.y.shape[0]), factor(), t.x[0], t.y);
}

void Reduce::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) strided_copy(context.space, grid_of(t.dy.shape[0]).reversed(), t.dy, t.dx[0], factor());
}

}  // namespace lockstep
