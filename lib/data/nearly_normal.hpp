// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace lockstep {

/// Nearly normal number of mean 0 and variance 1: the sum of twelve uniform numbers, from element `first` on, minus 6
/// (Irwin and Hall). It is used because sums are the same on every machine.
inline double nearly_normal(const RandomStream& random, std::uint64_t first) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += random.uniform(first + k);
  return sum;
}

}  // namespace lockstep
