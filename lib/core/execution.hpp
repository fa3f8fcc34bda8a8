// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep {

#ifndef LOCKSTEP_EXECUTION_SPACE  // tests have one of their own
#define LOCKSTEP_EXECUTION_SPACE Kokkos::DefaultExecutionSpace
#endif
/// Where the step runs. An instance of it is the first argument of every operation.
using ExecSpace = LOCKSTEP_EXECUTION_SPACE;
using MemorySpace = ExecSpace::memory_space;

/// Over 64-bit indices.
using RangePolicy = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

/// Host memory from which copies to the device are fastest (plain memory on CPUs).
using StagingSpace = Kokkos::SharedHostPinnedSpace;

/// Whether there is hardware apart from the host that kernels run on.
inline constexpr bool is_a_device = !std::is_same_v<ExecSpace, Kokkos::DefaultHostExecutionSpace>;

/// Whether kernels run on a device, or this build behaves as if they did (core/fake_device.hpp).
inline constexpr bool runs_on_device = is_a_device || LOCKSTEP_FAKE_DEVICE;

/// Whether the host reaches the step's memory by copies alone. It must not touch unified memory either, as kernels are
/// still at work when the call that started them returns.
inline constexpr bool memory_is_separate = runs_on_device;

/// Whether kernels give a thread to each element, or a few neighbours, as GPUs want it, rather than long stretches.
inline constexpr bool thread_per_element = runs_on_device;

/// Threads of a team that shares work by barriers: as many as wanted on devices, one on hosts.
constexpr int team_threads(int wanted) { return is_a_device ? wanted : 1; }

/// Threads that plans divide work among. No plan for a device depends on them, so that `check` can make one where there
/// is no device, and Kokkos cannot start.
inline int planned_threads() {
  if constexpr (runs_on_device) return 1;
  else return ExecSpace().concurrency();
}

/// Waits for kernels that were started before, where they may still be at work: what follows takes no time of theirs.
inline void wait_for_kernels(const ExecSpace& space) {
  if constexpr (runs_on_device) space.fence("lockstep::wait_for_kernels");
}

}  // namespace lockstep
