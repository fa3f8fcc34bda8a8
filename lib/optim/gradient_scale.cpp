// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/gradient_scale.hpp"

#include "ops/reduction.hpp"

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

void set_scale(const ExecSpace& space, double factor, double* scale) {
  Kokkos::parallel_for(
      "lockstep::gradient_scale::set", Range(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) { *scale = factor; });
}

/// `scale` holds the sum of squares on entry.
void clip_scale(const ExecSpace& space, double factor, double clip_norm, double* scale) {
  Kokkos::parallel_for(
      "lockstep::gradient_scale::clip", Range(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        const double coefficient = clip_norm / (factor * Kokkos::sqrt(*scale) + 1e-6);
        *scale = coefficient < 1 ? factor * coefficient : factor;
      });
}

}  // namespace

GradientScale::GradientScale(double clip_norm, const ParameterBuffer& parameters)
    : clip_norm_(clip_norm), scale_("lockstep::gradient_scale", DType::f64, {1}) {
  if (clip_norm > 0)
    scratch_ = OwnedTensor("lockstep::gradient_norm", DType::f64, {sum_of_squares_scratch(parameters.trained_size())});
}

Tensor GradientScale::compute(const ExecSpace& space, const ParameterBuffer& parameters, double factor) const {
  double* scale = scale_.get().as<double>();
  if (clip_norm_ > 0) {
    sum_of_squares(space, parameters.trained_gradients(), scratch_.get(), scale_.get());
    clip_scale(space, factor, clip_norm_, scale);
  } else {
    set_scale(space, factor, scale);
  }
  return scale_.get();
}

}  // namespace lockstep
