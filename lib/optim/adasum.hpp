// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Adasum (Maleki et al. 2020) of two steps of one tensor: a ← (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b. Orthogonal
/// steps add up, and equal steps are averaged; if one is zero, the result is the other. Both tensors are flat, f32 or
/// f64, and of equal length. Products and norms are summed in f64, in an order that does not depend on the number of
/// threads. `scratch`: f64 [adasum_scratch(a.count())].
void adasum(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& scratch);
std::int64_t adasum_scratch(std::int64_t count);

}  // namespace lockstep
