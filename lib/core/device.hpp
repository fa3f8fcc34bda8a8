// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Devices that the runtime sees: 0 where there is none, or no driver. 1 where kernels run on the host.
/// (Kokkos::num_devices ends the program where there is no driver.)
int device_count();

/// The device of the rank with this number within its node, of `devices` that it sees: by turns. None where there is
/// nothing to choose, or Kokkos' environment variables (KOKKOS_DEVICE_ID, KOKKOS_VISIBLE_DEVICES,
/// KOKKOS_MAP_DEVICE_ID_BY) do.
std::optional<int> device_for(int rank_in_node, int devices);

/// What tells this process' device from the others of its node, however they are numbered here: "0000:3b:00.0". Empty
/// where kernels run on the host.
std::string device_address();

/// Has the names of kernels recorded as they start, in builds for devices, and has those that the device does not start
/// throw Error(internal). Called before Kokkos starts. A tool of Kokkos' that the user loads takes its place.
void record_kernels();

/// The name of the kernel that started last; empty where none was recorded. Signal handlers may call it.
const char* last_kernel();

}  // namespace lockstep
