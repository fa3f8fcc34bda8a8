// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "base/timer.hpp"
#include "run/deck/run_config.hpp"
#include "run/training/completed_steps.hpp"
#include "train/step_result.hpp"

namespace lockstep {

/// Decides when a checkpoint is due: by the deck's intervals, or because a rank has voted for one.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const CheckpointOptions& options) : options_(options) {}

  /// Whether a checkpoint is due after these steps. None is while ranks have no common parameters; `postpone` remembers
  /// it.
  bool is_due(const CompletedSteps& steps, const StepRequests& votes) const {
    return steps.is_common && (is_owed_ || has_come(steps, votes));
  }
  /// Keeps a checkpoint that has become due with these steps due until it is written.
  void postpone(const CompletedSteps& steps, const StepRequests& votes) { is_owed_ |= has_come(steps, votes); }
  /// Whether checkpoint.every_minutes have passed since the last one.
  bool minutes_have_passed() const {
    return options_.every_minutes > 0 && since_last_.seconds() >= 60 * options_.every_minutes;
  }
  /// Whether copies of the state after these steps are to be made in the nodes' memory.
  bool copies_are_due(const CompletedSteps& steps) const {
    const std::int64_t every = options_.neighbours_every;
    return every > 0 && steps.is_common && steps.last / every > copied_step_ / every;
  }

  /// Notes that a checkpoint of this step is being written, which replaces copies of it as well.
  void written(std::int64_t step) {
    is_owed_ = false;
    since_last_.restart();
    copied(step);
  }
  /// Notes that no copies of this step, or of an earlier one, are due.
  void copied(std::int64_t step) { copied_step_ = step; }

  /// Logs once that a run writes no checkpoint before its end, if that end is far away.
  void say_when_only_at_the_end(double seconds_left);

 private:
  bool has_come(const CompletedSteps& steps, const StepRequests& votes) const;

  CheckpointOptions options_;
  Timer since_last_;
  std::int64_t copied_step_ = 0;
  bool is_owed_ = false, has_said_when_ = false;
};

}  // namespace lockstep
