// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <optional>

#include "base/heartbeat.hpp"

namespace lockstep {

/// How to wait for other ranks: with a core of its own a rank sees them at once, and it does not keep one for long
/// from a rank that has something to do.
class Patience {
 public:
  void pause();
  /// Something has happened.
  void begin_anew() {
    tries_ = 0;
    waits_.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;
  int tries_ = 0;
  Clock::time_point next_yield_;
  std::optional<WaitsForRanks> waits_;  ///< once it is more than a moment
};

/// Until `done()` says so.
template <class Done>
void wait_until(Done done) {
  for (Patience patience; !done();) patience.pause();
}

}  // namespace lockstep
