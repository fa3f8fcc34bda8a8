// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/fastest.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep {

std::vector<AllReduceRow> fastest_by_messages(int ranks) {
  constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();
  // Least message size at which a ring is worth its many messages.
  constexpr std::int64_t ring_message_bytes = 64 * 1024;
  // Both send the same bytes, the ring in more messages; but if ranks are no power of two, halving sends some of them
  // twice.
  const Algorithm* const by_halves = find_algorithm("halving_doubling");
  if (std::has_single_bit(static_cast<unsigned>(ranks))) return {{endless, by_halves}};
  return {{ring_message_bytes * ranks, by_halves}, {endless, find_algorithm("ring")}};
}

int leaders_of(std::optional<std::int64_t> asked, int smallest_node) {
  constexpr int most_leaders = 4;  // more do not make the network faster
  return static_cast<int>(std::min<std::int64_t>(asked.value_or(most_leaders), smallest_node));
}

}  // namespace lockstep
