// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Devices that the runtime sees: 0 where there is none, or no driver. 1 where kernels run on the host.
/// (Kokkos::num_devices ends the program where there is no driver.)
int device_count();

/// Has the names of kernels recorded as they start, in builds for devices. Called before Kokkos starts. A tool of
/// Kokkos' that the user loads takes its place.
void record_kernels();

/// The name of the kernel that started last; empty where none was recorded. Signal handlers may call it.
const char* last_kernel();

}  // namespace lockstep
