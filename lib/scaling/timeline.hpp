// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <vector>

#include "parallel/config/parallel_config.hpp"
#include "scaling/replay.hpp"

namespace lockstep {

/// A layer of the backward pass, or several: how long they compute, and which buckets are final then.
struct ComputedStretch {
  double seconds = 0;
  std::size_t buckets = 0;  ///< from the first one on
};

/// Who runs the sums of a step beside its backward pass.
struct Engine {
  ParallelConfig::Overlap overlap = ParallelConfig::Overlap::none;  ///< not automatic
  /// Whether kernels run on a device, so that adding takes nothing from them, and the host looks for messages all the
  /// time.
  bool has_device = false;
  double vote_seconds = 0;  ///< of what travels beside the last sums
};

/// Seconds from the beginning of the backward pass until the sums of all buckets are there, as BucketedReducer goes
/// through them: one bucket after the other. `sums`: of each bucket.
double sums_end(std::span<const ComputedStretch> backward, std::span<const ExchangeCost> sums, const Engine& engine);

}  // namespace lockstep
