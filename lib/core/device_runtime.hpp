// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>

#include "core/execution.hpp"

/// The run-time library of CUDA or HIP, whose names differ in their prefix alone: LOCKSTEP_DEVICE(GetDeviceCount) is
/// cudaGetDeviceCount or hipGetDeviceCount. Not defined for other builds.
#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda_runtime_api.h>
#define LOCKSTEP_DEVICE(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#include <hip/hip_runtime_api.h>
#define LOCKSTEP_DEVICE(name) hip##name
#endif

namespace lockstep {

#if defined(KOKKOS_ENABLE_CUDA)
/// What the library calls the stream of a space.
inline auto stream_of(const ExecSpace& space) { return space.cuda_stream(); }
/// Kokkos' memory for the reductions of a space, in place of which it takes other where one needs more.
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
