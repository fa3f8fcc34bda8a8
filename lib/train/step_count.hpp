// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "config/state_fields.hpp"

namespace lockstep {

/// Place of a step in its run.
struct StepPlace {
  std::int64_t applied;      ///< applied steps before it
  std::int64_t done;         ///< steps before it, skipped ones included
  std::int64_t before_last;  ///< steps before the last applied one; if there is none, before this one
};

/// Counts of a run's steps.
struct StepCount {
  std::int64_t done = 0, skipped = 0;
  std::int64_t skipped_in_a_row = 0;  ///< skipped steps after the last applied one
  std::int64_t before = 0;            ///< applied steps of the run that this one has branched from

  std::int64_t applied() const { return done - skipped; }
  /// Number of steps behind the optimizer's state, those of the run before included.
  std::int64_t optimizer_steps() const { return before + applied(); }
  void describe_state(StateFields& fields);
};

/// Describes the learning rate of the last applied one of the counted steps: 0 if there is none, or in checkpoints that
/// do not say.
void describe_last_learning_rate(StateFields& fields, const StepCount& count, double& learning_rate);

/// Steps before the next one. The host may not yet know whether the last of them was skipped.
struct KnownSteps {
  StepCount count;           ///< counts the last step as done, and not skipped
  std::int64_t untaken = 0;  ///< 1: the outcome of the last step is not known yet; 0: it is

  /// Number of steps that were applied for certain.
  std::int64_t applied() const { return count.applied() - untaken; }
  /// Returns the place of the step after `steps` applied ones: that of the next step, or of a later one if none is
  /// skipped before it.
  StepPlace place_of(std::int64_t steps) const;
};

}  // namespace lockstep
