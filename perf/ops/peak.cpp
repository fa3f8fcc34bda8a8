// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the FMA peak of the core that it runs on, in GFLOP/s: fp32, then fp64.

#include <fmt/format.h>

#include "fma_peak.hpp"

int main() {
  using lockstep::DType;
  fmt::print("{:.2f} {:.2f}\n", lockstep::perf::fma_peak(DType::f32) * 1e-9, lockstep::perf::fma_peak(DType::f64) * 1e-9);
}
