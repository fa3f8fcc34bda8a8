// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "base/duration.hpp"
#include "core/execution.hpp"
#include "core/fake_device.hpp"

namespace lockstep {

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
