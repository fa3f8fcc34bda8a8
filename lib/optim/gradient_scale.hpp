// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/parameter_buffer.hpp"

namespace lockstep {

/// What an optimizer multiplies summed gradients by, worked out where they are: the host reads nothing.
class GradientScale {
 public:
  /// `clip_norm`: the largest norm of the mean gradient; 0: any.
  GradientScale(double clip_norm, const ParameterBuffer& parameters);

  /// `factor` times the summed gradients is the mean gradient: one over examples and loss scale. Returns
  /// f64 [1]: factor · min(1, clip_norm / (norm + 10⁻⁶)), as torch.nn.utils.clip_grad_norm_ has it. For OptimizerStep.
  Tensor compute(const ExecSpace& space, const ParameterBuffer& parameters, double factor) const;

 private:
  double clip_norm_;
  OwnedTensor scratch_;  ///< none without clipping
  OwnedTensor scale_;
};

}  // namespace lockstep
