// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "study/ledger.hpp"
#include "study/pruner.hpp"
#include "study/trial_plan.hpp"

namespace lockstep {

/// Decides which trial comes next, and which part of each trial counts.
///
/// Each trial has the outcome that it would have if all trials of its group ran one after the other: trials of larger
/// numbers do not affect it. Trials that run at the same time are begun in the expectation that the ones before them
/// are feasible; what they do after the step at which they turn out to end is cut off. So the records are the same for
/// any number of slots, in whatever order trials end, and after any interruption.
class TrialScheduler {
 public:
  /// `commit` stores a record for good. `known`: records of earlier starts.
  TrialScheduler(const TrialPlan& plan, const std::vector<TrialRecord>& known,
                 std::function<void(const TrialRecord&)> commit);

  /// Returns a trial to begin now, which counts as running from here on; none if there is none at the moment.
  std::optional<TrialId> next();
  /// Adds an evaluation of a running trial. Steps that are known already are ignored.
  void report(const TrialId& id, const TrialReport& report);

  struct End {
    bool diverged = false, failed = false;
    std::string message;
    std::int64_t steps = 0;
    double seconds = 0;
    int slot = 0;
  };
  /// Notes that a trial has ended for good.
  void ended(const TrialId& id, const End& end);
  /// Notes that a trial does not run any more, and can be begun again.
  void interrupted(const TrialId& id);

  /// Returns the running trials that can end now, since nothing that they still do would count.
  std::vector<TrialId> superfluous() const;
  bool is_finished() const;
  /// Number of feasible records of a group, including the one that is being committed.
  std::int64_t feasible(std::size_t group) const;

 private:
  struct Trial {
    std::vector<TrialReport> reports;  ///< all reports so far
    std::optional<End> end;            ///< none: the trial has not ended
    TrialCurve curve;                  ///< the part that counts
    std::optional<TrialOutcome> outcome;
    bool runs = false, committed = false;
  };
  struct Group {
    std::vector<Trial> trials;
    std::unique_ptr<Pruner> pruner;
    std::int64_t committed = 0;  ///< number of committed trials, which are the first ones
  };

  void settle(std::size_t group);
  bool settle(Group& group, std::size_t index);
  bool is_known(const Group& group, std::size_t before, std::int64_t step) const;
  bool has_room(const Group& group) const;
  void commit(std::size_t group);
  Trial& trial(const TrialId& id) { return groups_[id.group].trials[static_cast<std::size_t>(id.index)]; }

  const TrialPlan& plan_;
  std::function<void(const TrialRecord&)> commit_;
  std::vector<Group> groups_;
};

}  // namespace lockstep
