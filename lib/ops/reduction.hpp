// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Σ x², accumulated in f64, in an order that does not depend on the number of threads. Waits for
/// the result. `scratch`: f64 [sum_of_squares_scratch(x.count())].
double sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch);
std::int64_t sum_of_squares_scratch(std::int64_t count);

}  // namespace lockstep
