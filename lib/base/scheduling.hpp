// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>

namespace lockstep {

/// Gives this thread, and threads that it starts later, the policy SCHED_BATCH: on a shared core, a thread keeps its
/// time slice even if another one wakes up.
void schedule_as_batch();

/// Total time that this runnable thread has waited for a core; 0 where Linux does not count it. The first call by a
/// thread makes two system calls, each later one a single call.
std::chrono::nanoseconds waited_for_core();

}  // namespace lockstep
