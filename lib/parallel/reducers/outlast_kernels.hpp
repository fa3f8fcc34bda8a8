// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <thread>

#include "core/stream_event.hpp"

namespace lockstep {

/// Calls `meanwhile` repeatedly until the kernels that were started before are done. SpinBackoff is not used, because
/// it is for waits for other ranks, and a device that hangs is not one.
template <class Meanwhile>
void outlast_kernels(const ExecSpace& space, Meanwhile meanwhile) {
  const StreamEvent kernels(space);
  while (!kernels.has_happened()) {
    meanwhile();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace lockstep
