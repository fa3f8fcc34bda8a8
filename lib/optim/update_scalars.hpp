// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "core/tensor.hpp"
#include "ops/reduction.hpp"

namespace lockstep {

/// The factors that an optimizer uses in a step. They depend on the learning rate and the step's number; each optimizer
/// defines its own. One rank computes them for all ranks, because powers and cosines differ in their last bits between
/// CPU models.
using StepCoefficients = Kokkos::Array<double, 4>;

/// What an update's kernels read about their step. It lies in device memory, so that kernels before them can set
/// it.
struct UpdateScalars {
  StepCoefficients coefficients{};
  double gradient_scale = 1;  ///< summed gradients times this are the clipped gradient of the mean loss
  std::int32_t first = 0;     ///< not 0: no step was applied before
  /// Not 0: parameters, their copies, states and statistics stay unchanged.
  std::int32_t left_out = 0;
  /// Value of Optimizer::nonfinite before a step that is left out, which keeps it.
  std::int32_t nonfinite_before = 0;
};

/// Memory for UpdateScalars, which the host can set.
class UpdateScalarsMemory {
 public:
  UpdateScalarsMemory() : memory_("lockstep::update_scalars", sizeof(UpdateScalars)) {}
  const UpdateScalars* set(const ExecSpace& space, const UpdateScalars& scalars) const {
    copy_from_host(space, &scalars, memory_.tensor(0, DType::u8, {sizeof(UpdateScalars)}));
    return reinterpret_cast<const UpdateScalars*>(memory_.data());
  }

 private:
  Buffer memory_;
};

/// Computes Σ g² of up to `count` summed gradients.
class GradientSquare {
 public:
  explicit GradientSquare(std::int64_t count)
      : scratch_("lockstep::gradient_square_scratch", DType::f64, {sum_of_squares_scratch(count)}),
        square_("lockstep::gradient_square", DType::f64, {1}) {}
  /// Returns f64 [1] in device memory. Does not wait for the device.
  Tensor compute(const ExecSpace& space, const Tensor& gradients) const {
    sum_of_squares(space, gradients, scratch_.get(), square_.get());
    return square_.get();
  }

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
