// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"

namespace lockstep {

/// Cuts elements [begin, end) of the gradients, each of `element_bytes`, into buckets of `megabytes` that follow each
/// other. The first one and the last one are smaller.
std::vector<Stretch> cut_into_buckets(std::int64_t begin, std::int64_t end, double megabytes,
                                      std::size_t element_bytes);

}  // namespace lockstep
