// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "nn/parameters/parameter_windows.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// Cuts stretches that follow each other, of elements of `element_bytes`, into buckets of at most `megabytes`. The
/// first one of all and the last one are smaller. They begin and end with blocks (array_block), counted from the first
/// element on, but for the end of a stretch, and where they are smaller than that.
std::vector<Stretch> cut_into_buckets(std::span<const Stretch> stretches, double megabytes, std::size_t element_bytes);

/// What ranks sum of the flat buffer of gradients, in the order in which a backward pass makes it final.
struct GradientBuckets {
  std::vector<Stretch> trained;     ///< none reaches from one unit of the parameters into the next
  std::vector<Stretch> statistics;  ///< after them

  /// Where ranks divide the sums they have whole blocks at least, since ranks own these as a whole.
  GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config);
  /// `units` follow each other from 0 on; `end`: of the statistics.
  GradientBuckets(const std::vector<Stretch>& units, std::int64_t end, double megabytes, std::size_t element_bytes);
};

/// When the window of a unit's gradients may be written: when `buckets` are summed, from the first one of trained and
/// statistics on, of this micro-batch or of the one before.
struct WindowTurn {
  int time;  ///< of the first layer that writes it
  std::size_t buckets;
  bool of_micro_batch_before;
};
/// Of windows that gradients are divided into.
std::vector<WindowTurn> window_turns(const ParameterWindows& windows, const GradientBuckets& buckets);

}  // namespace lockstep
