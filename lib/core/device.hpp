// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/duration.hpp"
#include "core/execution.hpp"
#include "core/fake_device.hpp"

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

/// An event on an execution space, which happens when all work submitted before it is done. In host builds, where
/// kernels finish in the call that starts them, it happens at once.
class StreamEvent {
 public:
  explicit StreamEvent(const ExecSpace& space);

  bool has_happened() const;
  /// Waits until the event has happened.
  void wait() const;
  /// Seconds from event `before` of the same space to this one; waits for this one.
  double seconds_since(const StreamEvent& before) const;

 private:
  friend void wait_for(const ExecSpace& space, const StreamEvent& event);

  Timer since_;                  // time of the event in host builds
  std::shared_ptr<void> event_;  // event in device builds
  fake_device::Moment moment_;   // event in preset fake_device
};

/// Returns an instance on the same device whose work runs concurrently with that of `space`.
ExecSpace space_beside(const ExecSpace& space);
/// Makes work submitted to `space` from now on wait for the event. The host does not wait.
void wait_for(const ExecSpace& space, const StreamEvent& event);
/// Lets the calling thread query and wait for events of this space's device.
void bind_thread(const ExecSpace& space);

}  // namespace lockstep
