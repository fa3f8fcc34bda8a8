// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace lockstep {

#ifndef LOCKSTEP_EXECUTION_SPACE  // tests define their own
#define LOCKSTEP_EXECUTION_SPACE Kokkos::DefaultExecutionSpace
#endif
/// Where a step's kernels run. An instance is the first argument of every operation.
using ExecSpace = LOCKSTEP_EXECUTION_SPACE;
using MemorySpace = ExecSpace::memory_space;

/// Range of 64-bit indices.
using RangePolicy = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

/// Pinned host memory, from which copies to the device are fastest (ordinary memory in CPU builds).
using StagingSpace = Kokkos::SharedHostPinnedSpace;

/// True if kernels run on hardware other than the host.
inline constexpr bool is_a_device = !std::is_same_v<ExecSpace, Kokkos::DefaultHostExecutionSpace>;

/// True if kernels run on a device, or if this build emulates that (core/fake_device.hpp).
inline constexpr bool runs_on_device = is_a_device || LOCKSTEP_FAKE_DEVICE;

/// True if the host accesses device memory only by copies. That includes unified memory, because kernels may still
/// be running when the call that started them returns.
inline constexpr bool memory_is_separate = runs_on_device;

/// True if kernels assign one element, or a few neighbours, to each thread, as GPUs need, rather than long ranges.
inline constexpr bool thread_per_element = runs_on_device;

/// Team size for kernels whose threads cooperate through barriers: `wanted` on devices, 1 on hosts.
constexpr int team_threads(int wanted) { return is_a_device ? wanted : 1; }

/// Number of threads that execution plans divide work among. Always 1 for devices, so that `check` can plan on a
/// machine without a device, where Kokkos cannot start.
inline int planned_threads() {
  if constexpr (runs_on_device) return 1;
  else return ExecSpace().concurrency();
}

/// Waits for kernels that may still be running, so that their time does not count as that of the code that follows.
inline void wait_for_kernels(const ExecSpace& space) {
  if constexpr (runs_on_device) space.fence("lockstep::wait_for_kernels");
}

}  // namespace lockstep
