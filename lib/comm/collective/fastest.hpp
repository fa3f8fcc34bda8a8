// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/collective/all_reduce_table.hpp"

namespace lockstep {

// Default algorithms for sums, chosen without measuring. Pure functions, also used by predictions.

/// The fastest message-based all-reduces for this number of ranks, by increasing number of bytes.
std::vector<AllReduceRow> fastest_by_messages(int ranks);
/// Number of ranks of each node that sum between nodes.
int leaders_of(std::optional<std::int64_t> asked, int smallest_node);

}  // namespace lockstep
