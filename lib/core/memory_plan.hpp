// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/execution.hpp"

namespace lockstep {

/// A block of memory that is in use from time `first` to time `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< offset of each lifetime in bytes, a multiple of `memory_alignment`
  std::size_t bytes = 0;             ///< size of the arena
};

/// In bytes: a cache line on CPUs; on devices the alignment that libraries assume for arrays.
inline constexpr std::size_t memory_alignment = runs_on_device ? 256 : 64;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// Places lifetimes in one arena so that those alive at the same time never overlap: largest first, each at the lowest
/// free offset ("greedy by size" of Pisarchyk & Lee, "Efficient memory management for deep neural net inference",
/// 2020).
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace lockstep
