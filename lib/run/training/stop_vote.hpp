// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "resilience/stop_request.hpp"
#include "run/training/run_owner.hpp"

namespace lockstep {

/// Whether this rank wants the run to stop at a checkpoint: because of a StopRequest, early enough for what must still
/// be done, or because the run's owner says so. A rank that has voted once for a stop goes on to do so.
class StopVote {
 public:
  /// `owner` outlives this; null: the run has none.
  StopVote(StopRequest request, RunOwner* owner) : request_(std::move(request)), owner_(owner) {}

  /// Notes the seconds of a step; where ranks train separately, those of all steps up to a synchronization.
  void step_done(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  /// Seconds of the longest step so far.
  double longest_step() const { return longest_step_; }

  /// Whether this rank votes for a stop, if ranks may stop after `steps` steps and then write a checkpoint that takes
  /// `checkpoint_seconds`.
  bool is_for_stop(std::int64_t steps, double checkpoint_seconds);
  /// Why this rank votes for a stop or, once the run has stopped, why it has; empty: this rank does not.
  const std::string& reason() const { return reason_; }
  /// Notes that the run has ended.
  void done() { request_.done(); }
  /// Notes that the run has stopped, for that reason.
  void stopped(std::string reason) {
    reason_ = std::move(reason);
    done();
  }

 private:
  StopRequest request_;
  RunOwner* owner_;
  std::string reason_;
  double longest_step_ = 0;
};

}  // namespace lockstep
