// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_scheduler.hpp"

#include <algorithm>

namespace lockstep {
namespace {

/// A group whose trials nearly all diverge ends after so many trials for each feasible one that is wanted.
constexpr std::int64_t most_trials = 10;

}  // namespace

TrialScheduler::TrialScheduler(const TrialPlan& plan, const std::vector<TrialRecord>& known,
                               std::function<void(const TrialRecord&)> commit)
    : plan_(plan), commit_(std::move(commit)) {
  const GoalOptions& goal = plan.study().goal;
  const Order order = goal.metric.is_better(0, 1) ? Order::less_is_better : Order::more_is_better;
  for (const TrialGroup& group : plan.groups())
    groups_.push_back({.trials = {}, .pruner = plan.study().prune.make(order, group.budget, plan.study().seeds)});
  for (const TrialRecord& record : known) {
    if (record.id.group >= groups_.size()) continue;
    Group& group = groups_[record.id.group];
    const auto index = static_cast<std::size_t>(record.id.index);
    if (index >= group.trials.size()) group.trials.resize(index + 1);
    group.trials[index] = {.reports = record.curve.reports,
                           .end = End{},
                           .curve = record.curve,
                           .outcome = record.outcome,
                           .committed = true};
  }
  for (Group& group : groups_) {  // trials are committed in order
    const auto first = std::ranges::find(group.trials, false, &Trial::committed);
    group.trials.erase(first, group.trials.end());
    group.committed = static_cast<std::int64_t>(group.trials.size());
  }
}

bool TrialScheduler::has_room(const Group& group) const {
  const std::int64_t wanted = plan_.study().trials();
  const std::int64_t most = plan_.study().is_ensemble() ? wanted : most_trials * wanted;  // repetitions end alike
  if (static_cast<std::int64_t>(group.trials.size()) >= most) return false;
  return std::ranges::count_if(
             group.trials, [](const Trial& trial) { return !trial.outcome || is_feasible(*trial.outcome); }) < wanted;
}

/// Takes a trial of the group with the fewest running trials, so that as little as possible is done that does not
/// count.
std::optional<TrialId> TrialScheduler::next() {
  for (std::size_t group = 0; group < groups_.size(); ++group)  // interrupted ones first
    for (std::size_t i = 0; i < groups_[group].trials.size(); ++i) {
      Trial& trial = groups_[group].trials[i];
      if (trial.runs || trial.end) continue;
      trial.runs = true;
      return TrialId{group, static_cast<std::int64_t>(i)};
    }
  std::optional<std::size_t> best;
  const auto running = [&](std::size_t group) { return std::ranges::count(groups_[group].trials, true, &Trial::runs); };
  for (std::size_t group = 0; group < groups_.size(); ++group)
    if (has_room(groups_[group]) && (!best || running(group) < running(*best))) best = group;
  if (!best) return std::nullopt;
  groups_[*best].trials.push_back({.runs = true});
  return TrialId{*best, static_cast<std::int64_t>(groups_[*best].trials.size()) - 1};
}

void TrialScheduler::report(const TrialId& id, const TrialReport& report) {
  std::vector<TrialReport>& reports = trial(id).reports;
  if (!reports.empty() && report.step <= reports.back().step) return;
  reports.push_back(report);
  settle(id.group);
}

void TrialScheduler::ended(const TrialId& id, const End& end) {
  trial(id).runs = false;
  trial(id).end = end;
  settle(id.group);
}

void TrialScheduler::interrupted(const TrialId& id) {
  trial(id).runs = false;
  if (trial(id).outcome) trial(id).end = End{};  // its outcome is known, so it need not go on
  settle(id.group);
}

std::vector<TrialId> TrialScheduler::superfluous() const {
  std::vector<TrialId> found;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < groups_[group].trials.size(); ++i)
      if (const Trial& trial = groups_[group].trials[i]; trial.runs && trial.outcome)
        found.push_back({group, static_cast<std::int64_t>(i)});
  return found;
}

bool TrialScheduler::is_finished() const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    return !has_room(group) && group.committed == static_cast<std::int64_t>(group.trials.size());
  });
}

std::int64_t TrialScheduler::feasible(std::size_t group) const {
  return std::ranges::count_if(groups_[group].trials,
                               [](const Trial& trial) { return trial.committed && is_feasible(*trial.outcome); });
}

/// Finds what counts of each trial of the group, as far as that is known, and commits trials that have ended.
void TrialScheduler::settle(std::size_t number) {
  Group& group = groups_[number];
  for (std::size_t i = static_cast<std::size_t>(group.committed); i < group.trials.size(); ++i)
    if (!group.trials[i].outcome) settle(group, i);
  commit(number);
}

/// Whether all trials before number `before` are known up to this step, or to their ends.
bool TrialScheduler::is_known(const Group& group, std::size_t before, std::int64_t step) const {
  for (std::size_t i = static_cast<std::size_t>(group.committed); i < before; ++i) {
    const Trial& trial = group.trials[i];
    if (trial.outcome) continue;
    if (group.pruner->needs_their_ends()) return false;
    if (trial.curve.reports.empty() || trial.curve.reports.back().step < step) return false;
  }
  return true;
}

bool TrialScheduler::settle(Group& group, std::size_t index) {
  Trial& trial = group.trials[index];
  std::vector<const TrialCurve*> before;
  for (std::size_t i = 0; i < index; ++i) before.push_back(&group.trials[i].curve);
  while (trial.curve.reports.size() < trial.reports.size()) {
    const TrialReport& report = trial.reports[trial.curve.reports.size()];
    if (!is_known(group, index, report.step)) return false;
    trial.curve.reports.push_back(report);
    if (!report.value) trial.outcome = TrialOutcome::diverged;
    else if (plan_.study().goal.is_reached_by(*report.value)) trial.outcome = TrialOutcome::reached;
    else if (group.pruner->ends(before, trial.curve)) trial.outcome = TrialOutcome::pruned;
    if (trial.outcome == TrialOutcome::reached) trial.curve.goal_step = report.step;
    if (trial.outcome) break;
  }
  if (!trial.outcome && trial.end)
    trial.outcome = trial.end->failed     ? TrialOutcome::failed
                    : trial.end->diverged ? TrialOutcome::diverged
                                          : TrialOutcome::complete;
  trial.curve.complete = trial.outcome == TrialOutcome::reached || trial.outcome == TrialOutcome::complete;
  return trial.outcome.has_value();
}

void TrialScheduler::commit(std::size_t number) {
  Group& group = groups_[number];
  for (auto i = static_cast<std::size_t>(group.committed); i < group.trials.size(); ++i) {
    Trial& trial = group.trials[i];
    if (!trial.outcome || !trial.end || trial.runs) return;
    const TrialId id{number, static_cast<std::int64_t>(i)};
    const bool is_bad = !is_feasible(*trial.outcome);
    trial.committed = true;
    ++group.committed;
    commit_({.id = id,
             .settings = plan_.settings(id),
             .seed = plan_.seed(id),
             .outcome = *trial.outcome,
             .message = is_bad ? trial.end->message : "",
             .curve = trial.curve,
             .steps_run = trial.end->steps,
             .seconds = trial.end->seconds,
             .slot = trial.end->slot});
  }
}

}  // namespace lockstep
