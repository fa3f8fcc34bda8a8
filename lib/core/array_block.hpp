// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace lockstep {

/// Long arrays are summed, updated and divided among ranks by blocks of so many elements, which begin at multiples of
/// it: who owns whole blocks has partial sums of which everybody makes the same total, bit for bit.
inline constexpr std::int64_t array_block = 4096;

/// Blocks that elements [0, count) lie in.
constexpr std::int64_t array_blocks(std::int64_t count) { return (count + array_block - 1) / array_block; }

}  // namespace lockstep
