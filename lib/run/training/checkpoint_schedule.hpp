// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "base/timer.hpp"
#include "run/deck/run_config.hpp"
#include "run/training/steps_done.hpp"
#include "train/step_result.hpp"

namespace lockstep {

/// When a checkpoint is due: by the deck's intervals, or because ranks have voted for it.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const CheckpointOptions& options) : options_(options) {}

  /// Whether one is, after these steps. Where ranks have no common parameters, it waits for these (`postpone`).
  bool is_due(const StepsDone& steps, const StepRequests& votes) const {
    return steps.is_common && (is_owed_ || has_come(steps, votes));
  }
  /// What has become due with these steps stays so until it is written.
  void postpone(const StepsDone& steps, const StepRequests& votes) { is_owed_ |= has_come(steps, votes); }
  /// Whether checkpoint.every_minutes have passed since the last one.
  bool minutes_have_passed() const {
    return options_.every_minutes > 0 && since_last_.seconds() >= 60 * options_.every_minutes;
  }
  /// Whether the nodes' memory is to have copies of the last of these steps.
  bool copies_are_due(const StepsDone& steps) const {
    const std::int64_t every = options_.neighbours_every;
    return every > 0 && steps.is_common && steps.last / every > copied_step_ / every;
  }

  /// One of this step is being written, in the place of copies as well.
  void written(std::int64_t step) {
    is_owed_ = false;
    since_last_.restart();
    copied(step);
  }
  /// No copies of this step are due, nor of those before it.
  void copied(std::int64_t step) { copied_step_ = step; }

  /// Says once, of a run that writes none before its end, that this is far away.
  void say_when_only_at_the_end(double seconds_left);

 private:
  bool has_come(const StepsDone& steps, const StepRequests& votes) const;

  CheckpointOptions options_;
  Timer since_last_;
  std::int64_t copied_step_ = 0;
  bool is_owed_ = false, has_said_when_ = false;
};

}  // namespace lockstep
