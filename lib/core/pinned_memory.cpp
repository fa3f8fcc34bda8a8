// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/pinned_memory.hpp"

#include "core/device_runtime.hpp"

namespace lockstep {

#ifdef LOCKSTEP_DEVICE
PinnedMemory::PinnedMemory(void* data, std::size_t bytes) {
  if (LOCKSTEP_DEVICE(HostRegister)(data, bytes, 0) == LOCKSTEP_DEVICE(Success))
    pinned_ = {data, [](void* registered) { static_cast<void>(LOCKSTEP_DEVICE(HostUnregister)(registered)); }};
  else static_cast<void>(LOCKSTEP_DEVICE(GetLastError)());  // otherwise the next kernel would report this error
}
#else
PinnedMemory::PinnedMemory(void*, std::size_t) {}
#endif

}  // namespace lockstep
