// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace lockstep {

/// How many steps of a run its updates stand for: `every` each, and the last update for what is left.
struct UpdateSteps {
  std::int64_t every = 1;
  std::int64_t last = 0;  ///< last step of the run

  std::int64_t updates() const { return (last + every - 1) / every; }
  /// Number of steps done after so many updates.
  std::int64_t after(std::int64_t updates) const { return std::min(updates * every, last); }
  /// Number of steps in the update that comes after `before` others.
  std::int64_t of(std::int64_t before) const { return after(before + 1) - after(before); }
  /// Number of updates that a run has done when it goes on after `steps` steps. Throws KeyError (parallel.local.every)
  /// if one of them is not complete.
  std::int64_t updates_before(std::int64_t steps) const;
  /// Returns the first update, from `update` on, after which the run looks at its parameters: that of a step for which
  /// `syncs` is true, or the last one.
  std::int64_t next_sync(std::int64_t update, const std::function<bool(std::int64_t)>& syncs) const;
};

}  // namespace lockstep
