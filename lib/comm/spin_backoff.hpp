// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <optional>

#include "base/heartbeat.hpp"

namespace lockstep {

/// How to wait for other ranks: at first watchfully, for less long where the core is not this thread's own, then in
/// naps of an eighth of the time waited so far, which leave the core to who has something to do. (Not by sched_yield,
/// whose cost to the caller differs between versions of Linux.)
class SpinBackoff {
 public:
  void pause();
  /// Something has happened.
  void reset() {
    since_.reset();
    waits_.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> since_;
  std::optional<WaitsForRanks> waits_;  ///< once it is more than a moment
};

/// Until `done()` says so.
template <class Done>
void wait_until(Done done) {
  for (SpinBackoff backoff; !done();) backoff.pause();
}

}  // namespace lockstep
