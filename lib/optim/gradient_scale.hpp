// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Σ g² of up to `count` summed gradients.
class GradientSquare {
 public:
  explicit GradientSquare(std::int64_t count);
  /// f64 [1], in the step's memory.
  Tensor compute(const ExecSpace& space, const Tensor& gradients) const;

 private:
  OwnedTensor scratch_, square_;
};

/// What summed gradients, whose squares add up to `square`, are multiplied by, where `factor` times them is the mean
/// gradient (one over examples and loss scale): factor · min(1, clip_norm / (norm + 10⁻⁶)), as
/// torch.nn.utils.clip_grad_norm_ has it. clip_norm: the largest norm of the mean gradient; 0: any.
KOKKOS_INLINE_FUNCTION double clipped_gradient_scale(double factor, double clip_norm, double square) {
  if (!(clip_norm > 0)) return factor;
  const double coefficient = clip_norm / (factor * Kokkos::sqrt(square) + 1e-6);
  return coefficient < 1 ? factor * coefficient : factor;
}

}  // namespace lockstep
