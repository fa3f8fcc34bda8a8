// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// The dot interaction of Naumov et al., "Deep learning recommendation model for personalization and recommendation
/// systems", 2019. An example has k + 1 vectors: z0 = first [n, d], z1 … zk = others [n, k, d]. y [n, d + k(k + 1)/2]
/// is z0 followed by z1·z0, z2·z0, z2·z1, z3·z0, …
void dot_interaction_forward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& y);
/// dfirst or dothers may be empty.
void dot_interaction_backward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& dy,
                              const Tensor& dfirst, const Tensor& dothers);

}  // namespace lockstep
