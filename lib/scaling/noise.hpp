// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scaling/machine.hpp"

namespace lockstep {

/// What the slowest of so many ranks takes in the mean, in medians of one: the expected maximum of as many independent
/// draws. The distribution goes between its points along lines, and beyond its ends stays as at them. 1 without noise.
double slowest_of(std::span<const NoisePoint> noise, std::int64_t ranks);

/// The distribution of these times of the same work, in points that show its upper end closely.
std::vector<NoisePoint> noise_of(std::vector<double> seconds);

}  // namespace lockstep
