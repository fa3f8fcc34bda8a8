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

/// Which trial comes next, and what counts of those that run.
///
/// The outcome of each trial is what it would have been with all trials of its group one after the other: trials of
/// larger numbers have no say in it. Those that run at the same time are begun in the expectation that the ones before
/// them are feasible, and what they do before it is known that they end is cut off again. So the records are the same
/// for any number of slots, in whatever order trials come to their ends, and after any interruption.
class TrialScheduler {
 public:
  /// `commit` keeps a record for good; `known`: the records of before.
  TrialScheduler(const TrialPlan& plan, const std::vector<TrialRecord>& known,
                 std::function<void(const TrialRecord&)> commit);

  /// A trial to begin now, which runs from here on; none: there is none at the moment.
  std::optional<TrialId> next();
  /// An evaluation of a running trial. Those of steps that are known already are passed over.
  void report(const TrialId& id, const TrialReport& report);

  struct End {
    bool diverged = false, failed = false;
    std::string message;
    std::int64_t steps = 0;
    double seconds = 0;
    int slot = 0;
  };
  /// A trial does not run any more, and will not again.
  void ended(const TrialId& id, const End& end);
  /// It does not run any more, and can be begun again.
  void interrupted(const TrialId& id);

  /// Of the running trials, those that can end now: nothing that they still do would count.
  std::vector<TrialId> superfluous() const;
  bool is_finished() const;
  /// Of the records that are kept, that which is being committed included.
  std::int64_t feasible(std::size_t group) const;

 private:
  struct Trial {
    std::vector<TrialReport> reports;  ///< as they have come
    std::optional<End> end;            ///< as it has come
    TrialCurve curve;                  ///< what counts
    std::optional<TrialOutcome> outcome;
    bool runs = false, committed = false;
  };
  struct Group {
    std::vector<Trial> trials;
    std::unique_ptr<Pruner> pruner;
    std::int64_t committed = 0;  ///< from the first one on
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
