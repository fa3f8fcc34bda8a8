// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// y = scale[c] · x + shift[c], where c is the last dimension: converts raw inputs (u8, f32 or f64) to numbers for
/// computation. `scale` and `shift` have y's master_dtype and C elements, or one for all channels. With scale = 1 /
/// (255 · std) and shift = −mean / std this is (x / 255 − mean) / std in one product and one sum.
void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y);

}  // namespace lockstep
