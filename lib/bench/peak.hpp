// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/dtype.hpp"

namespace lockstep {

/// FLOP/s that the calling core, or in builds for devices the whole device, reaches in fused multiply-adds on registers
/// alone (each counts as two), without matrix units: the best of many short runs, about 0.3 s. f32 or f64. The bound
/// that every product is compared with.
double multiply_add_peak(DType dtype);

}  // namespace lockstep
