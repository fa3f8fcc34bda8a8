// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scaling/machine.hpp"

namespace lockstep {

/// Returns the mean time of the slowest of `ranks` ranks, in median times of one: the expected maximum of independent
/// draws. The distribution is linear between its points and constant beyond its ends. 1 without noise.
double slowest_of(std::span<const NoisePoint> noise, std::int64_t ranks);

/// Returns the distribution of these times of the same work, by points that are dense at its upper end.
std::vector<NoisePoint> noise_of(std::vector<double> seconds);

}  // namespace lockstep
