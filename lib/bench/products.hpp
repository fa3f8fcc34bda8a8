// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace lockstep {

/// Receives a line at a time, as soon as it is known.
using Print = std::function<void(const std::string& line)>;

/// The peak of multiply-adds of one core, and the bandwidth of its memory.
void bench_peak(const Print& print);

/// GFLOP/s and share of the peak that each provider reaches in the large products of the presets: inner
/// products, or convolutions. Best of about a second's runs. Convolutions count their padding, which a
/// library may skip: hence shares above 100 %.
void bench_inner_products(const std::vector<DType>& types, std::int64_t batch, const Print& print);
void bench_convolutions(const std::vector<DType>& types, std::int64_t batch, const Print& print);

}  // namespace lockstep
