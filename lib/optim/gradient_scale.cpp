// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/gradient_scale.hpp"

#include "ops/reduction.hpp"

namespace lockstep {
namespace {

void set_scale(const ExecSpace& space, double factor, double* scale) {
  Kokkos::parallel_for(
      "lockstep::gradient_scale::set", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *scale = factor; });
}

void clip_scale(const ExecSpace& space, double factor, double clip_norm, const double* square, double* scale) {
  Kokkos::parallel_for(
      "lockstep::gradient_scale::clip", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        const double coefficient = clip_norm / (factor * Kokkos::sqrt(*square) + 1e-6);
        *scale = coefficient < 1 ? factor * coefficient : factor;
      });
}

}  // namespace

GradientSquare::GradientSquare(std::int64_t count)
    : scratch_("lockstep::gradient_square_scratch", DType::f64, {sum_of_squares_scratch(count)}),
      square_("lockstep::gradient_square", DType::f64, {1}) {}

Tensor GradientSquare::compute(const ExecSpace& space, const Tensor& gradients) const {
  sum_of_squares(space, gradients, scratch_.get(), square_.get());
  return square_.get();
}

Tensor GradientScale::compute(const ExecSpace& space, const Tensor& square, double factor) const {
  double* scale = scale_.get().as<double>();
  if (clips()) clip_scale(space, factor, clip_norm_, square.as<double>(), scale);
  else set_scale(space, factor, scale);
  return scale_.get();
}

}  // namespace lockstep
