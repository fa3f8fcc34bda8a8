// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/duration.hpp"
#include "data/batch/sampler.hpp"
#include "run/deck/run_config.hpp"
#include "run/resilience/signals.hpp"
#include "run/training/run_owner.hpp"
#include "train/results.hpp"

namespace lockstep {

/// The steps that a run has done at once, with nothing between them: one, or, where ranks train separately, all steps
/// up to a synchronization. Tells which of the deck's intervals have ended in them.
struct CompletedSteps {
  std::int64_t last = 0;  ///< number of the last step, from 1 on
  std::int64_t count = 1;
  SamplerPosition before;  ///< position in the data before these steps
  SamplerPosition after;   ///< position in the data after them
  bool is_common = true;   ///< ranks have common parameters after these steps

  /// Whether the number of one of these steps is a multiple of `period`.
  bool have_come_to(std::int64_t period) const { return last % period < count; }
  /// Whether an epoch whose number is a multiple of `epochs` has ended in these steps.
  bool have_ended(std::int64_t epochs) const {
    if (count == 1) return after.next == 0 && after.epoch % epochs == 0;
    return after.epoch / epochs > before.epoch / epochs;
  }
};

/// Decides when a checkpoint is due: by the deck's intervals, or because a rank has voted for one.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const CheckpointOptions& options) : options_(options) {}

  /// Whether a checkpoint is due after these steps. None is while ranks have no common parameters; `postpone` remembers
  /// it.
  bool is_due(const CompletedSteps& steps, const RankRequests& votes) const {
    return steps.is_common && (is_owed_ || has_come(steps, votes));
  }
  /// Keeps a checkpoint that has become due with these steps due until it is written.
  void postpone(const CompletedSteps& steps, const RankRequests& votes) { is_owed_ |= has_come(steps, votes); }
  /// Whether checkpoint.every_minutes have passed since the last one.
  bool minutes_have_passed() const {
    return options_.every_minutes > 0 && since_last_.seconds() >= 60 * options_.every_minutes;
  }

  /// Notes that a checkpoint is being written.
  void written() {
    is_owed_ = false;
    since_last_.restart();
  }

  /// Logs once that a run writes no checkpoint before its end, if that end is far away.
  void say_when_only_at_the_end(double seconds_left);

 private:
  bool has_come(const CompletedSteps& steps, const RankRequests& votes) const;

  CheckpointOptions options_;
  Timer since_last_;
  bool is_owed_ = false, has_said_when_ = false;
};

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
