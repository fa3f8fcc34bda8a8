// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/concat.hpp"

#include <algorithm>

#include "ops/elementwise/copies.hpp"

namespace lockstep {

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

}  // namespace lockstep
