// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/buckets.hpp"

#include <algorithm>

#include "core/array_block.hpp"

namespace lockstep {
namespace {

/// The first bucket is smaller, so that communication begins early, and so is the last one, for which the step waits.
constexpr double end_bucket_mb = 1;

std::vector<Stretch> stretches_of(const std::vector<ParameterRange>& ranges) {
  std::vector<Stretch> stretches;
  for (const ParameterRange& range : ranges) stretches.push_back({range.first, range.first + range.count});
  return stretches;
}

}  // namespace

std::vector<Stretch> cut_into_buckets(std::span<const Stretch> stretches, double megabytes, std::size_t element_bytes) {
  const auto elements = [&](double mb) {
    const std::int64_t count = static_cast<std::int64_t>(mb * 1e6) / static_cast<std::int64_t>(element_bytes);
    return count < array_block ? std::max<std::int64_t>(1, count) : count / array_block * array_block;
  };
  const std::int64_t most = elements(megabytes), at_ends = std::min(most, elements(end_bucket_mb));
  const std::int64_t unit = at_ends < array_block ? 1 : array_block;
  std::vector<Stretch> buckets;
  for (const Stretch& stretch : stretches)
    for (std::int64_t first = stretch.first; first < stretch.end; first = buckets.back().end) {
      const bool is_last = stretch.end == stretches.back().end;
      const std::int64_t left = stretch.end - first, least = is_last ? at_ends : 0;
      const std::int64_t before_last = (left - least + unit - 1) / unit * unit;
      const std::int64_t count = left <= least ? left : buckets.empty() ? at_ends : std::min(most, before_last);
      buckets.push_back({first, first + std::min(count, left)});
    }
  return buckets;
}

GradientBuckets::GradientBuckets(const std::vector<Stretch>& units, std::int64_t end, double megabytes,
                                 std::size_t element_bytes)
    : trained(cut_into_buckets(units, megabytes, element_bytes)) {
  const Stretch others[] = {{units.empty() ? 0 : units.back().end, end}};
  statistics = cut_into_buckets(others, megabytes, element_bytes);
}

GradientBuckets::GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config)
    : GradientBuckets(stretches_of(layout.units(config.unit_mb)), layout.summed_size(), config.bucket_mb,
                      size_of(layout.master())) {}

}  // namespace lockstep
