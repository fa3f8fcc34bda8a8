// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/collective/all_reduce_table.hpp"

namespace lockstep {

// What sums are made of where the deck does not say, known without measuring. Pure: predictions ask it too.

/// The fastest all-reduces by messages among so many ranks, by rising number of bytes.
std::vector<AllReduceRow> fastest_by_messages(int ranks);
/// Ranks of each node that sum between nodes.
int leaders_of(std::optional<std::int64_t> asked, int smallest_node);

}  // namespace lockstep
