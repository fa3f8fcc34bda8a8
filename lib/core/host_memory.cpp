// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/host_memory.hpp"

#include <cstdlib>  // defines __GLIBC__
#ifdef __GLIBC__
#include <malloc.h>
#endif

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

#ifdef __GLIBC__
void give_back_freed_memory() { static_cast<void>(malloc_trim(0)); }
#else
void give_back_freed_memory() {}
#endif

}  // namespace lockstep
