// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>

// Fibers emulate the threads of a device on one host thread: a fiber runs until it waits for others or is done.
// ThreadSanitizer treats each fiber as a thread and detects accesses that no barrier orders, in whatever order the
// fibers run.
namespace lockstep::test {

/// Limit per run: ThreadSanitizer distinguishes 255 threads, shared by two runs and the host.
inline constexpr int most_fibers = 120;

/// Barrier for a number of fibers.
class FiberBarrier {
 public:
  explicit FiberBarrier(int fibers);
  /// Returns when all fibers have called it; returns how often they had done so before.
  int wait();

 private:
  int fibers_, waiting_ = 0, phase_ = 0;
  // Synchronization objects for ThreadSanitizer, alternating between phases, because some fibers are one phase ahead.
  std::array<char, 2> order_{};
};

/// The work of fiber i of a run.
using FiberWork = void (*)(const void* argument, int run, int i);

/// Calls work(argument, run, i) for i < fibers, each in a fiber. Even runs are ordered after earlier even ones, odd
/// runs after earlier odd ones; nothing else orders them. Aborts if fibers wait for others that have ended.
void run_fibers(const char* label, int run, int fibers, FiberWork work, const void* argument);

/// Called before and after a group of runs: order the caller's earlier work before all fibers, and these before its
/// later work.
void begin_fibers();
void end_fibers();

}  // namespace lockstep::test
