// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/checkpoint_schedule.hpp"

#include "base/log.hpp"

namespace lockstep {

bool CheckpointSchedule::has_come(const CompletedSteps& steps, const StepRequests& votes) const {
  const std::int64_t every_steps = options_.every_steps, every_epochs = options_.every_epochs;
  return votes.checkpoint || (every_steps > 0 && steps.have_come_to(every_steps)) ||
         (every_epochs > 0 && steps.have_ended(every_epochs));
}

void CheckpointSchedule::say_when_only_at_the_end(double seconds_left) {
  constexpr double far = 600;
  if (options_.regular() || options_.neighbours_every > 0 || seconds_left < far || has_said_when_) return;
  has_said_when_ = true;
  log("checkpoints: only at the end; a run that is killed before that starts from scratch (give "
      "checkpoint.every_minutes: 15 to save more often)");
}

}  // namespace lockstep
