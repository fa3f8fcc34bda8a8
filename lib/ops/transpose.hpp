// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y [n, columns, rows]: the transpose of each matrix of x [n, rows, columns], of the same type. They do not overlap.
void transpose(const ExecSpace& space, const Tensor& x, const Tensor& y);

}  // namespace lockstep
