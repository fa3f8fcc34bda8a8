// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"

namespace lockstep {

/// Cuts elements [begin, end) of the gradients, each of `element_bytes`, into buckets of `megabytes` that follow each
/// other. The first one and the last one are smaller. They begin and end
/// with blocks (array_block), counted from `begin` on, but for the last one's end, and where they are smaller than
/// that.
std::vector<Stretch> cut_into_buckets(std::int64_t begin, std::int64_t end, double megabytes,
                                      std::size_t element_bytes);

}  // namespace lockstep
