// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "config/state_fields.hpp"

namespace lockstep {

/// Where in a run a step is.
struct StepPlace {
  std::int64_t applied;      ///< steps before it, without skipped ones
  std::int64_t done;         ///< with these
  std::int64_t before_last;  ///< done before the last one that was applied; where there is none, before this one
};

/// Steps of a run.
struct StepCount {
  std::int64_t done = 0, skipped = 0;
  std::int64_t skipped_in_a_row = 0;  ///< of these, those after the last step that was applied
  std::int64_t before = 0;            ///< that were applied in the run that this one has branched from

  std::int64_t applied() const { return done - skipped; }
  /// Steps that the optimizer's state comes of, also those of the run before.
  std::int64_t optimizer_steps() const { return before + applied(); }
  void describe_state(StateFields& fields);
};

/// Steps before the next one, of the last of which the host may not have heard yet whether it was skipped.
struct KnownSteps {
  StepCount count;           ///< this one is done, and not skipped
  std::int64_t untaken = 0;  ///< 1: there is one

  /// Steps that were applied for certain.
  std::int64_t applied() const { return count.applied() - untaken; }
  /// The place of the step after `steps` applied ones: the next step, or a later one if none is skipped until then.
  StepPlace place_of(std::int64_t steps) const;
};

}  // namespace lockstep
