// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/curves.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double efficient = 1.2;

/// For a given B_c: the best ln S_min, and the sum of squares that remains of ln S.
struct Rest {
  double log_least = 0, squares = 0;
};

Rest rest_of(std::span<const BatchSteps> points, double critical_batch) {
  Rest rest;
  const auto log_ratio = [&](const BatchSteps& point) {
    return std::log(point.steps) - std::log1p(critical_batch / point.batch);
  };
  for (const BatchSteps& point : points) rest.log_least += log_ratio(point) / static_cast<double>(points.size());
  for (const BatchSteps& point : points) rest.squares += std::pow(log_ratio(point) - rest.log_least, 2);
  return rest;
}

/// The B_c between two others with the smallest sum of squares.
double least_between(std::span<const BatchSteps> points, double low, double high) {
  for (int i = 0; i < 60; ++i) {
    const double a = std::pow(low, 2.0 / 3) * std::pow(high, 1.0 / 3),
                 b = std::pow(low, 1.0 / 3) * std::pow(high, 2.0 / 3);
    if (rest_of(points, a).squares < rest_of(points, b).squares) high = b;
    else low = a;
  }
  return std::sqrt(low * high);
}

/// Quantile of Student's t distribution for a two-sided 95 % interval.
double student(std::size_t freedom) {
  constexpr double values[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return freedom <= std::size(values) ? values[freedom - 1] : 1.96 + 2.4 / static_cast<double>(freedom);
}

/// Variance of ln S that comes from the distance between evaluations: steps are uniform between two of them.
double variance_of_resolution(std::span<const BatchSteps> points) {
  double sum = 0;
  for (const BatchSteps& point : points) sum += std::pow(point.resolution / point.steps, 2) / 12;
  return sum / static_cast<double>(points.size());
}

void conclude(ScalingCurve& curve) {
  std::ranges::sort(curve.groups, {}, &GroupResult::batch);
  std::vector<std::pair<double, double>> rates;
  for (const GroupResult* group : curve.groups) {
    if (!group->steps_to_goal) continue;
    const auto batch = static_cast<double>(group->batch);
    curve.steps.push_back(
        {batch, static_cast<double>(*group->steps_to_goal), static_cast<double>(group->resolution.value_or(0))});
    if (*group->effective_rate > 0) rates.emplace_back(batch, *group->effective_rate);
  }
  curve.fit = fit_scaling(curve.steps);
  curve.largest_efficient = largest_efficient_batch(curve.steps);
  curve.rate_power = fit_power(rates);
}

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

std::optional<ScalingFit> fit_scaling(std::span<const BatchSteps> points) {
  if (points.size() < 3) return std::nullopt;
  const auto [smallest, largest] = std::ranges::minmax(points, {}, &BatchSteps::batch);
  // Outside of this range, one end of the curve is straight, and B_c cannot be determined.
  const double first = std::log(smallest.batch / 1000), last = std::log(largest.batch * 1000);
  constexpr int count = 1000;
  const auto batch_at = [&](int i) { return std::exp(first + (last - first) * i / count); };
  std::vector<double> squares;
  for (int i = 0; i <= count; ++i) squares.push_back(rest_of(points, batch_at(i)).squares);
  const auto best = static_cast<int>(std::ranges::min_element(squares) - squares.begin());
  ScalingFit fit{.critical_batch = least_between(points, batch_at(best - 1), batch_at(best + 1))};
  const double least = rest_of(points, fit.critical_batch).squares;
  fit.least_steps = std::exp(rest_of(points, fit.critical_batch).log_least);
  fit.deviation = std::sqrt(least / static_cast<double>(points.size()));
  const std::size_t freedom = points.size() - 2;
  const double variance = std::max(least / static_cast<double>(freedom), variance_of_resolution(points));
  const double limit = least + variance * std::pow(student(freedom), 2);
  int low = best, high = best;
  while (low >= 0 && squares[static_cast<std::size_t>(low)] <= limit) --low;
  while (high <= count && squares[static_cast<std::size_t>(high)] <= limit) ++high;
  if (low >= 0) fit.low = batch_at(low);
  if (high <= count) fit.high = batch_at(high);
  return fit;
}

Regime regime_of(const ScalingFit& fit, double batch) {
  if (1 + batch / fit.critical_batch <= efficient) return Regime::perfect_scaling;
  if (1 + fit.critical_batch / batch <= efficient) return Regime::maximal_data_parallelism;
  return Regime::diminishing_returns;
}

std::optional<LargestEfficient> largest_efficient_batch(std::span<const BatchSteps> points) {
  if (points.size() < 2) return std::nullopt;
  std::vector<BatchSteps> sorted(points.begin(), points.end());
  std::ranges::sort(sorted, {}, &BatchSteps::batch);
  const double examples = sorted.front().batch * sorted.front().steps;
  const auto excess = [&](const BatchSteps& point) {
    return std::log(point.batch * point.steps / examples / efficient);
  };
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double before = excess(sorted[i - 1]), now = excess(sorted[i]);
    if (now <= 0) continue;
    const double from = std::log(sorted[i - 1].batch), to = std::log(sorted[i].batch);
    return LargestEfficient{std::exp(from + (to - from) * (-before) / (now - before))};
  }
  return LargestEfficient{sorted.back().batch, false};
}

std::optional<double> fit_power(std::span<const std::pair<double, double>> points) {
  if (points.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [a, b] : points) {
    x += std::log(a) / n, y += std::log(b) / n;
    xx += std::log(a) * std::log(a) / n, xy += std::log(a) * std::log(b) / n;
  }
  return (xy - x * y) / (xx - x * x);
}

std::vector<ScalingCurve> scaling_curves(const StudyResults& results) {
  std::vector<ScalingCurve> curves;
  if (results.study.batches.size() < 2 || !results.study.goal.value) return curves;
  for (const GroupResult& group : results.groups) {
    const std::string name = group.name_without_batch();
    auto curve = std::ranges::find(curves, name, &ScalingCurve::name);
    if (curve == curves.end()) curve = curves.insert(curve, {.name = name});
    curve->groups.push_back(&group);
  }
  std::ranges::for_each(curves, conclude);
  return curves;
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
