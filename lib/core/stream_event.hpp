// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "base/timer.hpp"
#include "core/execution.hpp"
#include "core/fake_device.hpp"

namespace lockstep {

/// A moment in the work given to an execution space: when all that was given before it is done. Where kernels run in
/// the call that starts them, that is now.
class StreamEvent {
 public:
  explicit StreamEvent(const ExecSpace& space);

  bool has_happened() const;
  /// Returns when it has.
  void wait() const;
  /// From another event of the same space to this one; waits for this one.
  double seconds_since(const StreamEvent& before) const;

 private:
  friend void wait_for(const ExecSpace& space, const StreamEvent& event);

  Timer since_;                  // hosts
  std::shared_ptr<void> event_;  // devices
  fake_device::Moment moment_;   // preset fake_device
};

/// An instance on the same device, whose work is done beside that of `space`.
ExecSpace space_beside(const ExecSpace& space);
/// What is given to `space` from now on begins when the event has happened. Returns at once.
void wait_for(const ExecSpace& space, const StreamEvent& event);
/// Events of the device of `space` may from now on be asked for by this thread too.
void bind_thread(const ExecSpace& space);

}  // namespace lockstep
