// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/spin_backoff.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "support/one_core.hpp"

namespace {
thread_local int yields = 0;
}

/// Replaces the C library's sched_yield, and counts its calls.
extern "C" int sched_yield() {
  ++yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

void wait_for(Clock::duration time) {
  wait_until([end = Clock::now() + time] { return Clock::now() > end; });
}

std::int64_t naps() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

std::chrono::nanoseconds time_on_core() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Some versions of Linux do not run a thread for seconds that yields again and again.
TEST(SpinBackoff, SleepsAndNeverYields) {
  yields = 0;
  const std::int64_t before = naps();
  for (int wait = 0; wait < 100; ++wait) wait_for(std::chrono::milliseconds(1));
  EXPECT_GE(naps() - before, 100);
  EXPECT_EQ(yields, 0);
}

TEST(SpinBackoff, LeavesASharedCoreToOthers) {
  if (!std::ifstream("/proc/thread-self/schedstat")) GTEST_SKIP() << "this Linux does not tell that a core is shared";
  const OneCore core;
  BusyThread other;
  wait_for(std::chrono::milliseconds(100));  // long enough to notice that the core is shared
  const std::chrono::nanoseconds before = time_on_core(), others_before = other.time_on_core();
  for (int wait = 0; wait < 100; ++wait) wait_for(std::chrono::milliseconds(2));
  EXPECT_LT(time_on_core() - before, (other.time_on_core() - others_before) / 2) << "as much is what it would get";
}

}  // namespace
}  // namespace lockstep
