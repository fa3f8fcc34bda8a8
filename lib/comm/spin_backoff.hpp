// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <optional>

#include "base/heartbeat.hpp"

namespace lockstep {

/// How to wait for other ranks: polls at first (for a shorter time if other threads use the core too), then naps
/// between polls, which leaves the core to others. A nap lasts an eighth of the time waited so far if the core is
/// shared, else a moment. (Not by sched_yield, whose cost to the caller differs between versions of Linux.)
class SpinBackoff {
 public:
  void pause();
  /// Starts over, after something has happened.
  void reset() {
    since_.reset();
    waits_.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> since_;
  std::optional<WaitsForRanks> waits_;  ///< set once the wait exceeds a moment
};

/// Waits until `done()` returns true.
template <class Done>
void wait_until(Done done) {
  for (SpinBackoff backoff; !done();) backoff.pause();
}

}  // namespace lockstep
