// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/gradient_scale.hpp"

#include "ops/reduction.hpp"

namespace lockstep {
GradientSquare::GradientSquare(std::int64_t count)
    : scratch_("lockstep::gradient_square_scratch", DType::f64, {sum_of_squares_scratch(count)}),
      square_("lockstep::gradient_square", DType::f64, {1}) {}

Tensor GradientSquare::compute(const ExecSpace& space, const Tensor& gradients) const {
  sum_of_squares(space, gradients, scratch_.get(), square_.get());
  return square_.get();
}

}  // namespace lockstep
