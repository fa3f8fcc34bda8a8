// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/branches.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/checkpoint.hpp"
#include "optim/schedule.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {
namespace {

/// Mean over the seeds of the last results; none if a seed is missing or has diverged.
std::optional<double> last_result(const StudyResults& results, std::size_t group) {
  double sum = 0;
  std::int64_t count = 0;
  for (const TrialRecord& record : results.records) {
    if (record.id.group != group || !is_feasible(record.outcome) || record.curve.reports.empty()) continue;
    const std::optional<double> value = record.curve.reports.back().value;
    if (!value) continue;
    sum += *value;
    ++count;
  }
  if (count < results.study.trials()) return std::nullopt;
  return sum / static_cast<double>(count);
}

void find_critical_batch(BranchCurve& curve, const StudyConfig& study) {
  std::ranges::sort(curve.points, {}, &BranchPoint::batch);
  const auto own = static_cast<double>(study.branch_from.batch.value_or(0));
  for (const BranchPoint& point : curve.points)
    if (point.batch == own) curve.reference = point.value;
  if (!curve.reference) return;
  const bool less_is_better = study.goal.metric.is_better(0, 1);
  const auto is_as_good = [&](const BranchPoint& point) {
    if (!point.value) return false;
    const double worse = less_is_better ? *point.value - *curve.reference : *curve.reference - *point.value;
    return worse <= study.branch_from.tolerance;
  };
  for (const BranchPoint& point : curve.points) {
    if (point.batch < own) continue;
    if (point.is_pending) break;
    if (!is_as_good(point)) return;
    curve.critical_batch = point.batch;
  }
  curve.is_limit = false;
}

}  // namespace

void read_branching_point(StudyConfig& study, const Communicator& world) {
  BranchOptions& branch = study.branch_from;
  if (!branch.present) return;
  std::array<double, 3> found{};
  world.run_on_root([&] {
    const std::string file = study.branch_file();
    const Checkpoint checkpoint = open_checkpoint(file);
    StepCount count;
    RunState state;
    ExampleOrder order;
    restore_state(checkpoint, file, [&](StateFields& fields) {
      count.describe_state(fields);
      state.describe_state(fields);
      order.describe_state(fields);
    });
    const RunConfig run = read_run_config(parse_deck(checkpoint.texts.at("deck"), file));
    const RunLength length = run_length(run, order.dataset_size);
    found = {static_cast<double>(count.optimizer_steps()),
             static_cast<double>(
                 std::min(length.batch_at(state.data.position.epoch, state.data.position.next), order.dataset_size)),
             run.optimizer.rule().learning_rate *
                 LearningRateSchedule(run.schedule, length).factor(count.applied(), count.done)};
  });
  world.broadcast({found.data(), found.size()});
  branch.step = static_cast<std::int64_t>(found[0]);
  branch.batch = static_cast<std::int64_t>(found[1]);
  branch.learning_rate = found[2];
  world.run_collectively([&] {
    with_positions(study.source, [&] {
      validate_key(std::ranges::find(study.batches, *branch.batch) != study.batches.end(), "batches",
                   "lacks {}, the batch that {} was trained with, to which the others are compared; add it",
                   *branch.batch, branch.checkpoint);
    });
  });
}

std::vector<BranchCurve> branch_curves(const StudyResults& results) {
  std::vector<BranchCurve> curves;
  if (!results.study.branch_from.present) return curves;
  for (std::size_t i = 0; i < results.groups.size(); ++i) {
    const GroupResult& group = results.groups[i];
    const std::string name = group.name_without_batch();
    auto curve = std::ranges::find(curves, name, &BranchCurve::name);
    if (curve == curves.end()) curve = curves.insert(curve, {.name = name});
    curve->points.push_back({.batch = static_cast<double>(group.batch),
                             .learning_rate = results.study.branch_from.rate_of(group.batch),
                             .value = last_result(results, i),
                             .is_pending = group.trials < results.study.trials() && group.feasible == group.trials});
  }
  for (BranchCurve& curve : curves) find_critical_batch(curve, results.study);
  return curves;
}

}  // namespace lockstep
