// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <vector>

#include "parallel/config/parallel_config.hpp"
#include "scaling/replay.hpp"

namespace lockstep {

/// One or several layers of the backward pass: how long they compute, and which buckets are final after that.
struct ComputedPart {
  double seconds = 0;
  std::size_t buckets = 0;  ///< number of final buckets, from the first one on
};

/// How the sums of a step run during its backward pass.
struct Engine {
  GradientSumConfig::Overlap overlap = GradientSumConfig::Overlap::none;  ///< any but automatic
  /// Whether kernels run on a device, so that adding takes no time from them, and the host looks for messages all the
  /// time.
  bool has_device = false;
  double vote_seconds = 0;  ///< time of the vote that travels with the last sums
};

/// Returns the seconds from the beginning of the backward pass until the sums of all buckets are done. As in
/// BucketedReducer, buckets are summed one after the other. `sums`: cost of each bucket.
double sums_end(std::span<const ComputedPart> backward, std::span<const ExchangeCost> sums, const Engine& engine);

}  // namespace lockstep
