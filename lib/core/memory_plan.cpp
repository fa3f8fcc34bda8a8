// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](auto a, auto b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed;  // indices of lifetimes, ordered by offset
  for (const auto item : by_size) {
    const auto& life = lifetimes[item];
    std::size_t offset = 0;
    for (const auto other : placed) {
      const auto& theirs = lifetimes[other];
      if (theirs.last < life.first || life.last < theirs.first) continue;
      if (offset + align_up(life.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + align_up(theirs.bytes));
    }
    plan.offsets[item] = offset;
    plan.bytes = std::max(plan.bytes, offset + align_up(life.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), item,
                                   [&](auto a, auto b) { return plan.offsets[a] < plan.offsets[b]; }),
                  item);
  }
  return plan;
}

}  // namespace lockstep
