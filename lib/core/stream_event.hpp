// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "base/timer.hpp"
#include "core/execution.hpp"

namespace lockstep {

/// A moment in the work given to an execution space: when all that was given before it is done. Where kernels run in
/// the call that starts them, that is now.
class StreamEvent {
 public:
  explicit StreamEvent(const ExecSpace& space);

  bool has_happened() const;
  /// From another event of the same space to this one; waits for this one.
  double seconds_since(const StreamEvent& before) const;

 private:
  Timer since_;                  // hosts
  std::shared_ptr<void> event_;  // devices
};

}  // namespace lockstep
