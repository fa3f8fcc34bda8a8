// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace lockstep {

/// Long arrays are summed, updated and divided among ranks in blocks of this many elements, aligned to multiples of it.
/// Partial sums of whole blocks add up to the same total, bit for bit, whichever rank owns which blocks.
inline constexpr std::int64_t array_block = 4096;

/// Number of blocks that cover elements [0, count).
constexpr std::int64_t array_blocks(std::int64_t count) { return (count + array_block - 1) / array_block; }

}  // namespace lockstep
