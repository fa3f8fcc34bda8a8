// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/softmax.hpp"

#include "ops/loss/loss.hpp"

namespace lockstep {

std::unique_ptr<Layer> SoftmaxConfig::make_layer() const { return std::make_unique<Softmax>(); }

void Softmax::forward(const PassContext& context, const LayerTensors& t) {
  softmax_forward(context.space, t.x[0], t.y);
}

void Softmax::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) softmax_backward(context.space, t.y, t.dy, t.dx[0]);
}

}  // namespace lockstep
