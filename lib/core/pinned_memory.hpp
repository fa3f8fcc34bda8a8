// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>

namespace lockstep {

/// Has memory of the host, which outlives this, stay where it is, so that the device copies it by itself while the host
/// goes on. Where that is refused (limits of locked memory), copies take longer, and the host waits for them. On hosts
/// nothing is done.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(void* data, std::size_t bytes);

 private:
  std::shared_ptr<void> pinned_;
};

}  // namespace lockstep
