// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/dot_interaction.hpp"

#include "ops/sequence/embedding.hpp"

namespace lockstep {

std::unique_ptr<Layer> DotInteractionConfig::make_layer() const { return std::make_unique<DotInteraction>(); }

Shape DotInteraction::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() == 2, ExitStatus::bad_deck,
           "dot_interaction has {} input (it needs a vector, and several others); name them: from: [bottom, tables]",
           inputs.size());
  const Shape &first = inputs[0], &others = inputs[1];
  validate(
      first.rank() == 1 && others.rank() == 2 && others[1] == first[0], ExitStatus::bad_deck,
      "dot_interaction cannot read {} and {} (a vector of d values, and one of shape k×d, are needed); give it two "
      "that match",
      to_string(first), to_string(others));
  return {first[0] + others[0] * (others[0] + 1) / 2};
}

void DotInteraction::forward(const PassContext& context, const LayerTensors& t) {
  dot_interaction_forward(context.space, t.x[0], t.x[1], t.y);
}

void DotInteraction::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0] || t.dx[1]) dot_interaction_backward(context.space, t.x[0], t.x[1], t.dy, t.dx[0], t.dx[1]);
}

}  // namespace lockstep
