// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/stop_vote.hpp"

namespace lockstep {

bool StopVote::is_for_stop(std::int64_t steps, double checkpoint_seconds) {
  constexpr double margin = 2;  // seconds
  // Steps and checkpoints may take twice as long as they have so far.
  const double seconds = margin + 2 * (static_cast<double>(steps) * longest_step_ + checkpoint_seconds);
  if (reason_.empty() && owner_) reason_ = owner_->stop_reason();  // asked first, so that its words count
  if (reason_.empty()) reason_ = request_.reason(seconds);
  return !reason_.empty();
}

}  // namespace lockstep
