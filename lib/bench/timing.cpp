// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/timing.hpp"

#include <algorithm>

#include "base/timer.hpp"
#include "core/execution.hpp"

namespace lockstep {

double seconds_of(const std::function<void()>& call) {
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

double best_seconds_of(const std::function<void()>& call) {
  double best = 1e30;
  int runs = 0;
  for (const Timer total; total.seconds() < (is_a_device ? 0.1 : 0.5) || runs < 3; ++runs)
    best = std::min(best, seconds_of(call));
  return best;
}

}  // namespace lockstep
