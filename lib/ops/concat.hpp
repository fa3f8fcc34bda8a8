// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// A row holds inputs side by side: columns first … first + c of `wide` [rows, wide_c] are `narrow` [rows, c], each
/// with its last extent as columns.
void concat_place(const ExecSpace& space, const Tensor& narrow, std::int64_t first, const Tensor& wide);
void concat_take(const ExecSpace& space, const Tensor& wide, std::int64_t first, const Tensor& narrow);

}  // namespace lockstep
