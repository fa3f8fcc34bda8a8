// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/patience.hpp"

#include <sys/prctl.h>

#include <thread>

namespace lockstep {

void Patience::pause() {
  constexpr int at_once = 64;
  constexpr auto between_yields = std::chrono::microseconds(5), nap = std::chrono::microseconds(20);
  // Linux 6.6 to 6.17 move a thread's deadline by a time slice whenever it yields ("sched/fair: Forfeit vruntime on yield",
  // 2025): thousands of yields cost it seconds where others want the core. Sleep brings the deadline back.
  constexpr int most_yields = 64;
  thread_local int yields = 0;  // since this thread has last slept
  [[maybe_unused]] thread_local const int precise = ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);  // ns, in place of 50 µs
  if (++tries_ < at_once) return;
  if (!waits_ && yields < most_yields) {
    const Clock::time_point now = Clock::now();
    if (now < next_yield_) return;
    ++yields;
    std::this_thread::yield();
    next_yield_ = Clock::now() + between_yields;
    return;
  }
  if (!waits_) waits_.emplace();
  yields = 0;
  std::this_thread::sleep_for(nap);
}

}  // namespace lockstep
