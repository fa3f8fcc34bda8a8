// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/patience.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
thread_local int yields = 0;
}

/// In the C library's place.
extern "C" int sched_yield() {
  ++yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace lockstep {
namespace {

/// Threads that yield again and again are not run for seconds by some versions of Linux.
TEST(Patience, YieldsAFewTimesBeforeItSleeps) {
  yields = 0;
  constexpr int waits = 500;
  int most = 0;
  for (int wait = 0; wait < waits; ++wait) {
    const int before = yields;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(400);
    wait_until([&] { return std::chrono::steady_clock::now() > end; });
    most = std::max(most, yields - before);
  }
  EXPECT_GT(yields, 0);
  EXPECT_LE(most, 64);
  EXPECT_LE(yields, waits * 64);
}

/// Waits that are over soon must not add up to more.
TEST(Patience, SleepsAfterManyShortWaits) {
  wait_until([end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5)] {
    return std::chrono::steady_clock::now() > end;
  });  // which sleeps
  const auto naps = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  yields = 0;
  const auto before = naps();
  for (int wait = 0; wait < 1000; ++wait) {
    Patience patience;
    for (const int seen = yields; yields == seen && naps() == before;) patience.pause();
    if (naps() != before) break;
  }
  EXPECT_LE(yields, 64);
  EXPECT_GT(naps(), before);
}

}  // namespace
}  // namespace lockstep
