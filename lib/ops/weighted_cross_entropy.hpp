// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/loss.hpp"

namespace lockstep {

/// cross_entropy_of_rows for class weights, ignored classes or mixed targets.
void weighted_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                            const Tensor& targets, const MixedTargets& mixed, const Tensor& dlogits,
                            const Tensor& per_row, const GradientFactor& gradient_scale);

/// Adds weight and number of the rows that count, of n examples, to `sums` (LossSums). Weights must have so few bits
/// that their sums are exact; the order of additions then does not matter.
void add_row_weights(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                     const Tensor& sums);

}  // namespace lockstep
