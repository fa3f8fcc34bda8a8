// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/freed_memory.hpp"

#include <cstdlib>  // defines __GLIBC__
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep {

#ifdef __GLIBC__
void give_back_freed_memory() { static_cast<void>(malloc_trim(0)); }
#else
void give_back_freed_memory() {}
#endif

}  // namespace lockstep
