// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>

/// The run-time library of CUDA or HIP, whose names differ in their prefix alone: LOCKSTEP_DEVICE(GetDeviceCount) is
/// cudaGetDeviceCount or hipGetDeviceCount. Not defined for other builds.
#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda_runtime_api.h>
#define LOCKSTEP_DEVICE(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#include <hip/hip_runtime_api.h>
#define LOCKSTEP_DEVICE(name) hip##name
#endif
