// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "nn/parameters/unshard_plan.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// Cuts consecutive ranges, of elements of `element_bytes`, into buckets of at most `megabytes`. The first bucket of
/// all and the last one are smaller. Buckets begin and end with blocks (array_block), counted from the first element
/// on, except at the end of a range and where they are smaller than a block.
std::vector<ElementRange> cut_into_buckets(std::span<const ElementRange> ranges, double megabytes,
                                           std::size_t element_bytes);

/// The buckets in which ranks sum the flat buffer of gradients, in the order in which a backward pass makes it final.
struct GradientBuckets {
  std::vector<ElementRange> trained;     ///< no bucket reaches from one unit of the parameters into the next
  std::vector<ElementRange> statistics;  ///< after the trained gradients

  /// If ranks divide the sums, buckets have at least a block, because ranks own whole blocks.
  GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config);
  /// `units` are consecutive, from 0 on. `end` is the end of the statistics.
  GradientBuckets(const std::vector<ElementRange>& units, std::int64_t end, double megabytes,
                  std::size_t element_bytes);
};

/// When the window of a unit's gradients may be written: when the first `buckets` buckets, counted over trained ones
/// and statistics, of this micro-batch or of the one before, are summed.
struct WindowTurn {
  int time;  ///< of the first layer that writes the window
  std::size_t buckets;
  bool of_micro_batch_before;
};
/// Returns the turns of windows, if gradients are divided into windows.
std::vector<WindowTurn> window_turns(const UnshardPlan& windows, const GradientBuckets& buckets);

}  // namespace lockstep
