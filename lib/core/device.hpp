// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Number of devices that the runtime sees; 0 without a device or driver, 1 if kernels run on the host.
/// (Kokkos::num_devices would end the program without a driver.)
int device_count();

/// Chooses a device round-robin by the rank's number within its node; `devices`: how many the rank sees. Empty if there
/// are fewer than two, or if Kokkos' environment variables (KOKKOS_DEVICE_ID, KOKKOS_VISIBLE_DEVICES,
/// KOKKOS_MAP_DEVICE_ID_BY) choose.
std::optional<int> device_for(int rank_in_node, int devices);

/// PCI address of this process's device, "0000:3b:00.0", which identifies it within the node however devices are
/// numbered here. Empty if kernels run on the host.
std::string device_address();

/// Makes device builds record the name of each kernel that starts, and throw Error(internal) for a kernel that the
/// device fails to start. Must be called before Kokkos is initialized. A Kokkos tool loaded by the user replaces this.
void record_kernels();

/// Name of the kernel that started last; empty if none was recorded. Safe to call from a signal handler.
const char* last_kernel();

}  // namespace lockstep
