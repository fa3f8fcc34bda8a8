// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Adds to `matrix` (f64 [K, K]) the number of rows of each class (matrix row) that are predicted as each class (matrix
/// column). Targets equal to `ignored` and rows whose outputs contain NaN are not counted. outputs [n, …, K]; targets
/// i32 [n, …].
void count_confusions(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, std::int64_t ignored,
                      const Tensor& matrix);

}  // namespace lockstep
