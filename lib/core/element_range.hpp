// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Long arrays are summed, updated and divided among ranks in blocks of this many elements, aligned to multiples of it.
/// Partial sums of whole blocks add up to the same total, bit for bit, whichever rank owns which blocks.
inline constexpr std::int64_t array_block = 4096;

/// Number of blocks that cover elements [0, count).
constexpr std::int64_t array_blocks(std::int64_t count) { return (count + array_block - 1) / array_block; }

/// The elements [first, first + count) of a flat buffer.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  /// The elements [first, end).
  static ElementRange between(std::int64_t first, std::int64_t end) { return {first, end - first}; }

  std::int64_t end() const { return first + count; }
  /// The intersection of the two ranges; its count is 0 if they do not overlap.
  ElementRange within(const ElementRange& other) const {
    const std::int64_t begin = std::max(first, other.first);
    return {begin, std::max<std::int64_t>(0, std::min(end(), other.end()) - begin)};
  }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace lockstep
