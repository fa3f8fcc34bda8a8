// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Computes Σ g² of up to `count` summed gradients.
class GradientSquare {
 public:
  explicit GradientSquare(std::int64_t count);
  /// Returns f64 [1] in device memory. Does not wait for the device.
  Tensor compute(const ExecSpace& space, const Tensor& gradients) const;

 private:
  OwnedTensor scratch_, square_;
};

/// The factor that turns summed gradients into the clipped mean gradient. `factor` alone gives the mean gradient (one
/// over examples and loss scale), and `square` is the sum of squares of the summed gradients. Returns factor · min(1,
/// clip_norm / (norm + 10⁻⁶)), as torch.nn.utils.clip_grad_norm_ does. clip_norm: the largest norm of the mean
/// gradient; 0: no limit.
KOKKOS_INLINE_FUNCTION double clipped_gradient_scale(double factor, double clip_norm, double square) {
  if (!(clip_norm > 0)) return factor;
  const double coefficient = clip_norm / (factor * Kokkos::sqrt(square) + 1e-6);
  return coefficient < 1 ? factor * coefficient : factor;
}

}  // namespace lockstep
