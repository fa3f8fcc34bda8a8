// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/buckets.hpp"

#include <algorithm>

#include "core/array_block.hpp"

namespace lockstep {
namespace {

/// The first bucket is smaller, so that communication begins early, and so is the last one, for which the step waits.
constexpr double end_bucket_mb = 1;

}  // namespace

std::vector<Stretch> cut_into_buckets(std::int64_t begin, std::int64_t end, double megabytes,
                                      std::size_t element_bytes) {
  const auto elements = [&](double mb) {
    const std::int64_t count = static_cast<std::int64_t>(mb * 1e6) / static_cast<std::int64_t>(element_bytes);
    return count < array_block ? std::max<std::int64_t>(1, count) : count / array_block * array_block;
  };
  const std::int64_t most = elements(megabytes), at_ends = std::min(most, elements(end_bucket_mb));
  const std::int64_t unit = at_ends < array_block ? 1 : array_block;
  std::vector<Stretch> buckets;
  for (std::int64_t first = begin; first < end; first = buckets.back().end) {
    const std::int64_t left = end - first;
    const std::int64_t before_last = (left - at_ends + unit - 1) / unit * unit;
    const std::int64_t count = left <= at_ends ? left : first == begin ? at_ends : std::min(most, before_last);
    buckets.push_back({first, first + count});
  }
  return buckets;
}

}  // namespace lockstep
