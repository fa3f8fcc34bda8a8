// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/dtype.hpp"

namespace lockstep {

/// Returns the FLOP/s that the calling core, or in builds for devices the whole device, reaches in fused multiply-adds
/// on registers (each counts as two operations), without matrix units: the best of many short runs, which take about
/// 0.3 s. f32 or f64. Products are compared with this peak.
double multiply_add_peak(DType dtype);

}  // namespace lockstep
