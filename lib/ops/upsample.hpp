// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y [n, factor·h, factor·w, c]: each pixel of x [n, h, w, c] is repeated factor × factor times.
void upsample_forward(const ExecSpace& space, std::int64_t factor, const Tensor& x, const Tensor& y);
/// Each pixel of dx is the sum of its copies in dy, row by row.
void upsample_backward(const ExecSpace& space, std::int64_t factor, const Tensor& dy, const Tensor& dx);

}  // namespace lockstep
