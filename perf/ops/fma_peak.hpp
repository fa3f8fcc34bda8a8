// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/dtype.hpp"

namespace lockstep::perf {

/// FLOP/s that the calling core reaches in fused multiply-adds on registers alone (each counts as
/// two): the best of several runs, about 0.3 s. The bound that every product here is compared with.
double fma_peak(DType dtype);

}  // namespace lockstep::perf
