// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <thread>

#include "core/stream_event.hpp"

namespace lockstep {

/// Does something again and again until the kernels that were started before are done. Not by SpinBackoff: a device
/// that hangs is no other rank that is waited for.
template <class Meanwhile>
void outlast_kernels(const ExecSpace& space, Meanwhile meanwhile) {
  const StreamEvent kernels(space);
  while (!kernels.has_happened()) {
    meanwhile();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace lockstep
