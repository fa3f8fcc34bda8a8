// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/reduce.hpp"

#include "nn/layers/axes.hpp"

namespace lockstep {

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
