// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Copies inputs into a row that holds them side by side, and back: columns first … first + c − 1 of `wide` [rows,
/// wide_c] are `narrow` [rows, c]. Columns are the last extent of each.
void concat_place(const ExecSpace& space, const Tensor& narrow, std::int64_t first, const Tensor& wide);
void concat_take(const ExecSpace& space, const Tensor& wide, std::int64_t first, const Tensor& narrow);

}  // namespace lockstep
