// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Adds to `matrix` (f64 [K, K]) how many rows of each class (its row) are predicted as each (its column). Targets of
/// the number `ignored`, and outputs that are not numbers, are in none. outputs [n, …, K]; targets i32 [n, …].
void count_confusions(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, std::int64_t ignored,
                      const Tensor& matrix);

}  // namespace lockstep
