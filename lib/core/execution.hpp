// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>

namespace lockstep {

/// Where the step runs. An instance of it is the first argument of every operation.
using ExecSpace = Kokkos::DefaultExecutionSpace;
using MemorySpace = ExecSpace::memory_space;

/// Over 64-bit indices.
using RangePolicy = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

/// Host memory from which copies to the device are fastest (plain memory on CPUs).
using StagingSpace = Kokkos::SharedHostPinnedSpace;

/// Whether kernels run on the host, so that they are done when the call that starts them returns.
inline constexpr bool kernels_run_on_host = std::is_same_v<ExecSpace, Kokkos::DefaultHostExecutionSpace>;

/// Whether the host can read and write the step's memory directly.
inline constexpr bool host_shares_memory =
    Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, MemorySpace>::accessible;

/// Threads that plans divide work among. No plan for a device depends on them, so that `check` can make one where there
/// is no device, and Kokkos cannot start.
inline int planned_threads() {
  if constexpr (kernels_run_on_host) return ExecSpace().concurrency();
  else return 1;
}

}  // namespace lockstep
