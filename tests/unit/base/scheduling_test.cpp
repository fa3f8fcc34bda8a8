// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/process.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/one_core.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

void compute_for(Clock::duration time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) continue;
}

TEST(Scheduling, BatchHoldsForThreadsThatAreStartedLater) {
  int policy = -1;
  std::thread([&] {
    schedule_as_batch();
    std::thread([&] { policy = ::sched_getscheduler(0); }).join();
  }).join();
  EXPECT_EQ(policy, SCHED_BATCH);
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "of threads before it nothing has changed";
}

TEST(Scheduling, CountsTheTimeWithoutACore) {
  if (!std::ifstream("/proc/thread-self/schedstat")) GTEST_SKIP() << "this Linux does not count it";
  const OneCore core;
  const BusyThread other;
  const std::chrono::nanoseconds before = waited_for_core();
  compute_for(std::chrono::milliseconds(300));
  EXPECT_GT(waited_for_core() - before, std::chrono::milliseconds(50));
  EXPECT_LT(waited_for_core() - before, std::chrono::seconds(30));
}

}  // namespace
}  // namespace lockstep
