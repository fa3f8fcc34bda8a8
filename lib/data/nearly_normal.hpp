// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace lockstep {

/// Nearly normal, of mean 0 and variance 1: twelve uniform numbers, from element `first` on (Irwin and Hall), as only
/// sums are exact everywhere.
inline double nearly_normal(const RandomStream& random, std::uint64_t first) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += random.uniform(first + k);
  return sum;
}

}  // namespace lockstep
