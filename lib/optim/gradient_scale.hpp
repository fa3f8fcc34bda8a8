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

/// What an optimizer multiplies summed gradients by, worked out where they are: the host reads nothing.
class GradientScale {
 public:
  /// `clip_norm`: the largest norm of the mean gradient; 0: any.
  explicit GradientScale(double clip_norm)
      : clip_norm_(clip_norm), scale_("lockstep::gradient_scale", DType::f64, {1}) {}

  /// Whether `compute` looks at the norm.
  bool clips() const { return clip_norm_ > 0; }
  /// `factor` times the summed gradients is the mean gradient: one over examples and loss scale. `square`, f64 [1], is
  /// the sum of their squares, where it clips. Returns f64 [1]: factor · min(1, clip_norm / (norm + 10⁻⁶)), as
  /// torch.nn.utils.clip_grad_norm_ has it. For OptimizerStep.
  Tensor compute(const ExecSpace& space, const Tensor& square, double factor) const;

 private:
  double clip_norm_;
  OwnedTensor scale_;
};

}  // namespace lockstep
