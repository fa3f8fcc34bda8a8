// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/loss.hpp"

namespace lockstep {

/// softmax_cross_entropy where classes have weights, or are ignored, or targets are mixed.
void weighted_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                            const Tensor& targets, const MixedTargets& mixed, const Tensor& dlogits,
                            const Tensor& per_row, const Tensor& sums, double gradient_scale);

}  // namespace lockstep
