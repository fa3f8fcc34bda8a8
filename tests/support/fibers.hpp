// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>

// Threads of a device, one after the other in a thread of the host: a fiber runs until it waits for others or has done
// its work. ThreadSanitizer takes each fiber for a thread, and finds what no barrier orders, whatever the fibers'
// turns.
namespace lockstep::test {

/// Of a run: ThreadSanitizer tells 255 threads apart, of which two runs and the host need theirs.
inline constexpr int most_fibers = 120;

/// Where fibers wait for each other.
class FiberBarrier {
 public:
  explicit FiberBarrier(int fibers);
  /// Returns when all have called it: how often they had before.
  int wait();

 private:
  int fibers_, waiting_ = 0, phase_ = 0;
  std::array<char, 2> order_{};  // what ThreadSanitizer knows phases by, in turns: some fibers are one phase ahead
};

/// What fiber i of a run does.
using FiberWork = void (*)(const void* argument, int run, int i);

/// Calls work(argument, run, i) for i < fibers, each in a fiber. An even run comes after the even ones before it, an
/// odd one after the odd ones; nothing else orders them. Ends the program where fibers wait for others that have
/// ended.
void run_fibers(const char* label, int run, int fibers, FiberWork work, const void* argument);

/// To be called around runs: what the caller has done comes before all fibers, and these before what it does then.
void begin_fibers();
void end_fibers();

}  // namespace lockstep::test
