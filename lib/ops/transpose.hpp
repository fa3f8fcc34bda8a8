// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// y [n, columns, rows] (+)= the transpose of each matrix of x [n, rows, columns]. y has x's type or its master_dtype.
/// x and y must not overlap.
void transpose(const ExecSpace& space, const Tensor& x, const Tensor& y, Store store = Store::replace);

}  // namespace lockstep
