// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>

namespace lockstep {

/// Makes this thread, and those that it starts from now on, SCHED_BATCH: where several want a core, each keeps it for a
/// time slice, whoever wakes meanwhile.
void schedule_as_batch();

/// How long this thread has waited for a core so far while it had something to do; 0 where Linux does not count it. Two
/// system calls the first time, one thereafter.
std::chrono::nanoseconds waited_for_core();

}  // namespace lockstep
