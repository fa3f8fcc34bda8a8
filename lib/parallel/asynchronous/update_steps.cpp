// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/update_steps.hpp"

#include "config/deck.hpp"

namespace lockstep {

std::int64_t UpdateSteps::updates_before(std::int64_t steps) const {
  validate_key(steps % every == 0 || steps >= last, "parallel.local.every",
               "the checkpoint is of step {}, but workers hand in their changes every {} steps, at multiples of {}; "
               "give a divisor of {}, or continue from another checkpoint",
               steps, every, every, steps);
  return (steps + every - 1) / every;
}

std::int64_t UpdateSteps::next_sync(std::int64_t update, const std::function<bool(std::int64_t)>& syncs) const {
  for (; update < updates(); ++update)
    for (std::int64_t step = after(update - 1) + 1; step <= after(update); ++step)
      if (syncs(step)) return update;
  return update;
}

}  // namespace lockstep
