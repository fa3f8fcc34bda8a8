// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/execution.hpp"

namespace lockstep {

/// A piece of memory that is needed from time `first` to time `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< of each lifetime, multiples of `alignment`
  std::size_t bytes = 0;             ///< of the whole arena
};

/// Bytes: a line of a CPU's caches; on devices what libraries take their arrays to begin with a multiple of.
inline constexpr std::size_t memory_alignment = runs_on_device ? 256 : 64;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// Places lifetimes in one arena so that those alive together never overlap: largest first, each
/// at the lowest free offset (Pisarchyk & Lee, "Efficient memory management for deep neural net
/// inference", 2020, "greedy by size").
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace lockstep
