// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

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

/// What the library calls the stream of a space.
#if defined(KOKKOS_ENABLE_CUDA)
inline auto stream_of(const ExecSpace& space) { return space.cuda_stream(); }
#elif defined(KOKKOS_ENABLE_HIP)
inline auto stream_of(const ExecSpace& space) { return space.hip_stream(); }
#endif

}  // namespace lockstep
