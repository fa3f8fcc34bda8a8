// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace lockstep {

/// Of how many steps of a run its updates are: `every`, but the last one of what is left.
struct UpdateSteps {
  std::int64_t every = 1;
  std::int64_t last = 0;  ///< step of the run

  std::int64_t updates() const { return (last + every - 1) / every; }
  /// Steps that are done after so many updates.
  std::int64_t after(std::int64_t updates) const { return std::min(updates * every, last); }
  /// Steps of the update that comes after `before` others.
  std::int64_t of(std::int64_t before) const { return after(before + 1) - after(before); }
  /// Steps of a round of it, of a worker that does so many; 0: all.
  std::int64_t of_round(std::int64_t before, std::int64_t steps) const {
    return steps > 0 ? std::min(steps, of(before)) : of(before);
  }
  /// Updates before a run goes on after so many steps. Throws Error(bad_deck) where one is not complete.
  std::int64_t updates_before(std::int64_t steps) const;
  /// The first update from `update` on after which a run looks at its parameters, which it does after steps of which
  /// `syncs` is true, and the last one.
  std::int64_t next_sync(std::int64_t update, const std::function<bool(std::int64_t)>& syncs) const;
};

}  // namespace lockstep
