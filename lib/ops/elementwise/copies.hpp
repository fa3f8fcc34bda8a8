// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// y = x, with each element rounded to y's floating-point type.
void convert(const ExecSpace& space, const Tensor& x, const Tensor& y);

/// y += x, in y's type.
void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y);

/// Copies inputs into a row that holds them side by side, and back: columns first … first + c − 1 of `wide` [rows,
/// wide_c] are `narrow` [rows, c]. Columns are the last extent of each.
void concat_place(const ExecSpace& space, const Tensor& narrow, std::int64_t first, const Tensor& wide);
void concat_take(const ExecSpace& space, const Tensor& wide, std::int64_t first, const Tensor& narrow);

/// y [n, columns, rows] (+)= the transpose of each matrix of x [n, rows, columns]. y has x's type or its master_dtype.
/// x and y must not overlap.
void transpose(const ExecSpace& space, const Tensor& x, const Tensor& y, Store store = Store::replace);

}  // namespace lockstep
