// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <functional>

#include "base/duration.hpp"
#include "core/execution.hpp"

namespace lockstep {

/// Returns the seconds of a call that gives work to the default stream, as the mean of up to 1,000 calls in a row that
/// take 2 ms, so that the cost of a start and a wait does not count for calls of microseconds.
inline double seconds_of(const std::function<void()>& call) {
  const ExecSpace space;
  const auto seconds_of_all = [&](int calls) {
    space.fence("lockstep::bench");
    const Timer timer;
    for (int i = 0; i < calls; ++i) call();
    space.fence("lockstep::bench");
    return timer.seconds();
  };
  constexpr double enough = 2e-3;
  const double first = seconds_of_all(1);
  if (first >= enough) return first;
  const int calls = static_cast<int>(std::clamp(enough / first, 2.0, 1e3));
  return seconds_of_all(calls) / calls;
}

/// Returns the seconds of the fastest of as many calls, at least three, as fit into half a second (on devices a tenth).
inline double best_seconds_of(const std::function<void()>& call) {
  double best = 1e30;
  int runs = 0;
  for (const Timer total; total.seconds() < (is_a_device ? 0.1 : 0.5) || runs < 3; ++runs)
    best = std::min(best, seconds_of(call));
  return best;
}

}  // namespace lockstep
