// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "resilience/stop_request.hpp"
#include "run/training/run_owner.hpp"

namespace lockstep {

/// Whether this rank wants the run to stop at a checkpoint: because of a StopRequest, soon enough for what must still
/// be done, or because the run's owner says so. A rank that has wanted it once goes on to.
class StopVote {
 public:
  /// `owner`: outlives this; null where the run has none.
  StopVote(StopRequest request, RunOwner* owner) : request_(std::move(request)), owner_(owner) {}

  /// A step has taken so long; of ranks that go their own ways, all of it from one synchronization to the next.
  void step_done(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  /// Seconds.
  double longest_step() const { return longest_step_; }

  /// Ranks may stop after so many steps, and then write a checkpoint that takes so many seconds.
  bool is_for_stop(std::int64_t steps, double checkpoint_seconds);
  /// Why this rank wants it, and once the run has stopped, why that has; empty: it does not.
  const std::string& reason() const { return reason_; }
  /// The run has ended.
  void done() { request_.done(); }
  /// The run has stopped, for that reason.
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
