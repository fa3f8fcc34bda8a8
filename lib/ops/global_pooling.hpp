// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y [n, c]: the mean over the pixels of x [n, h, w, c], or over the positions of x [n, t, c].
void global_average_forward(const ExecSpace& space, const Tensor& x, const Tensor& y);
/// Distributes dy evenly over the pixels of dx.
void global_average_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dx);

}  // namespace lockstep
