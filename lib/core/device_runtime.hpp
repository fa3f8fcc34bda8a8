// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>

#include "core/execution.hpp"

/// Names of the CUDA or HIP runtime, which differ only in their prefix: LOCKSTEP_DEVICE(GetDeviceCount) is
/// cudaGetDeviceCount or hipGetDeviceCount. Not defined in other builds.
#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda_runtime_api.h>
#define LOCKSTEP_DEVICE(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#include <hip/hip_runtime_api.h>
#define LOCKSTEP_DEVICE(name) hip##name
#endif

namespace lockstep {

#if defined(KOKKOS_ENABLE_CUDA)
/// Native stream of an execution space.
inline auto stream_of(const ExecSpace& space) { return space.cuda_stream(); }
/// Kokkos' scratch memory for reductions of this space; Kokkos reallocates it when a reduction needs more.
inline std::array<const void*, 2> scratch_of(const ExecSpace& space) {
  return {Kokkos::Impl::cuda_internal_scratch_space(space, 0), Kokkos::Impl::cuda_internal_scratch_flags(space, 0)};
}
#elif defined(KOKKOS_ENABLE_HIP)
inline auto stream_of(const ExecSpace& space) { return space.hip_stream(); }
inline std::array<const void*, 2> scratch_of(const ExecSpace& space) {
  return {Kokkos::Impl::hip_internal_scratch_space(space, 0), Kokkos::Impl::hip_internal_scratch_flags(space, 0)};
}
#endif

}  // namespace lockstep
