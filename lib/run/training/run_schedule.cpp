// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_schedule.hpp"

#include "base/log.hpp"

namespace lockstep {

bool CheckpointSchedule::has_come(const CompletedSteps& steps, const RankRequests& votes) const {
  const std::int64_t every_steps = options_.every_steps, every_epochs = options_.every_epochs;
  return votes.checkpoint || (every_steps > 0 && steps.have_come_to(every_steps)) ||
         (every_epochs > 0 && steps.have_ended(every_epochs));
}

void CheckpointSchedule::say_when_only_at_the_end(double seconds_left) {
  constexpr double far = 600;
  if (options_.regular() || seconds_left < far || has_said_when_) return;
  has_said_when_ = true;
  log("checkpoints: only at the end; a run that is killed before that starts from scratch (give "
      "checkpoint.every_minutes: 15 to save more often)");
}

bool StopVote::is_for_stop(std::int64_t steps, double checkpoint_seconds) {
  constexpr double margin = 2;  // seconds
  // Steps and checkpoints may take twice as long as they have so far.
  const double seconds = margin + 2 * (static_cast<double>(steps) * longest_step_ + checkpoint_seconds);
  if (reason_.empty() && owner_) reason_ = owner_->stop_reason();  // asked first, so that its words count
  if (reason_.empty()) reason_ = request_.reason(seconds);
  return !reason_.empty();
}

}  // namespace lockstep
