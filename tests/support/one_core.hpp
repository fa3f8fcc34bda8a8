// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <thread>

namespace lockstep {

/// Binds this thread, and those that it starts, to one core for its lifetime.
class OneCore {
 public:
  OneCore() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

/// A thread that uses all the time that it gets on a core.
class BusyThread {
 public:
  std::chrono::nanoseconds time_on_core() {
    clockid_t clock{};
    timespec time{};
    ::pthread_getcpuclockid(thread_.native_handle(), &clock);
    ::clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

 private:
  std::jthread thread_{[](const std::stop_token& stop) {
    while (!stop.stop_requested()) continue;
  }};
};

}  // namespace lockstep
