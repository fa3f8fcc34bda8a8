// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/loss.hpp"

namespace lockstep {

/// cross_entropy_of_rows where classes have weights, or are ignored, or targets are mixed.
void weighted_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                            const Tensor& targets, const MixedTargets& mixed, const Tensor& dlogits,
                            const Tensor& per_row, const GradientFactor& gradient_scale);

/// Adds to `sums` (LossSums) weight and number of the rows that count, of n examples. Weights have so few bits that
/// sums of them are exact: no order of additions changes them.
void add_row_weights(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                     const Tensor& sums);

}  // namespace lockstep
