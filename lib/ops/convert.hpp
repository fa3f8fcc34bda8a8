// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y = x, with each element rounded to y's floating-point type.
void convert(const ExecSpace& space, const Tensor& x, const Tensor& y);

/// y += x, in y's type.
void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y);

}  // namespace lockstep
