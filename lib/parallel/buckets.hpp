// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "comm/parallel_config.hpp"
#include "nn/parameter_layout.hpp"

namespace lockstep {

/// Cuts stretches that follow each other, of elements of `element_bytes`, into buckets of at most `megabytes`. The
/// first one of all and the last one are smaller. They begin and end with blocks (array_block), counted from the first
/// element on, but for the end of a stretch, and where they are smaller than that.
std::vector<Stretch> cut_into_buckets(std::span<const Stretch> stretches, double megabytes, std::size_t element_bytes);

/// What ranks sum of the flat buffer of gradients, in the order in which a backward pass makes it final.
struct GradientBuckets {
  std::vector<Stretch> trained;     ///< none reaches from one unit of the parameters into the next
  std::vector<Stretch> statistics;  ///< behind them

  GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config);
  /// `units` follow each other from 0 on; `end`: of the statistics.
  GradientBuckets(const std::vector<Stretch>& units, std::int64_t end, double megabytes, std::size_t element_bytes);
};

}  // namespace lockstep
