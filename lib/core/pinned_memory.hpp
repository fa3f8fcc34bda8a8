// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>

namespace lockstep {

/// Pins host memory, which must outlive this object, so that copies between it and the device are asynchronous. If
/// pinning is refused (limit of locked memory), copies are slower and the host waits for them. No effect in host
/// builds.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(void* data, std::size_t bytes);

 private:
  std::shared_ptr<void> pinned_;
};

}  // namespace lockstep
