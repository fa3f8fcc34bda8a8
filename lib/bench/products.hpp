// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace lockstep {

/// Receives each line as soon as it is known.
using Print = std::function<void(const std::string& line)>;

/// Prints the peak of multiply-adds of one core, and the bandwidth of its memory.
void bench_peak(const Print& print);

/// Print the GFLOP/s and the share of the peak that each provider reaches in the presets' large inner products and
/// convolutions: the best of runs of about a second. Convolutions count their padding, which a library may skip: hence
/// shares above 100 %.
void bench_inner_products(const std::vector<DType>& types, std::int64_t batch, const Print& print);
void bench_convolutions(const std::vector<DType>& types, std::int64_t batch, const Print& print);

}  // namespace lockstep
