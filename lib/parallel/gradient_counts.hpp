// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// The outcome of the gradients of workers that do not wait for each other.
struct GradientCounts {
  /// Number of gradients applied 0, 1, … updates after the parameters that they were computed by.
  std::vector<std::int64_t> by_staleness;
  std::int64_t discarded_examples = 0;  ///< examples whose gradients came too late
};

}  // namespace lockstep
