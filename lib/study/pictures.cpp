// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "monitor/chart.hpp"

namespace lockstep {
namespace {

constexpr int points_of_a_curve = 60;

/// Points of y(x) between the smallest and the largest batch.
template <class Function>
std::vector<Chart::Point> line_of(const ScalingCurve& curve, Function y) {
  std::vector<Chart::Point> line;
  const double first = std::log(curve.steps.front().batch), last = std::log(curve.steps.back().batch);
  for (int i = 0; i <= points_of_a_curve; ++i) {
    const double x = std::exp(first + (last - first) * i / points_of_a_curve);
    line.push_back({x, y(x)});
  }
  return line;
}

std::string named(const ScalingCurve& curve, const std::string& what) {
  return curve.name.empty() ? what : fmt::format("{} ({})", what, curve.name);
}

std::string steps_picture(const StudyResults& results, const std::vector<ScalingCurve>& curves) {
  const GoalOptions& goal = results.study.goal;
  Chart chart(fmt::format("Steps to {} {:g}", goal.metric.text(), *goal.value), "batch", "steps");
  for (const ScalingCurve& curve : curves) {
    if (curve.steps.empty()) continue;
    std::vector<Chart::Point> measured;
    for (const BatchSteps& point : curve.steps) measured.push_back({point.batch, point.steps});
    chart.add_points(named(curve, "measured"), measured);
    if (!curve.fit) continue;
    const ScalingFit& fit = *curve.fit;
    chart.add_line(named(curve, fmt::format("S_min (1 + B_c/B), B_c = {:.3g}", fit.critical_batch)),
                   line_of(curve, [&](double batch) { return fit.steps_at(batch); }), Chart::Stroke::solid);
    chart.add_line(named(curve, "perfect scaling"),
                   line_of(curve, [&](double batch) { return fit.least_examples() / batch; }), Chart::Stroke::dashed);
    chart.add_line(named(curve, fmt::format("S_min = {:.3g}", fit.least_steps)),
                   line_of(curve, [&](double) { return fit.least_steps; }), Chart::Stroke::dashed);
  }
  return chart.svg();
}

std::string rates_picture(const std::vector<ScalingCurve>& curves) {
  Chart chart("Learning rate of the best trial", "batch", "learning rate");
  for (const ScalingCurve& curve : curves) {
    std::vector<Chart::Point> plain, effective;
    for (const GroupResult* group : curve.groups) {
      if (!group->steps_to_goal) continue;
      plain.push_back({static_cast<double>(group->batch), *group->learning_rate});
      effective.push_back({static_cast<double>(group->batch), *group->effective_rate});
    }
    if (effective.empty()) continue;
    chart.add_points(named(curve, "learning rate"), plain);
    chart.add_points(named(curve, "learning rate / (1 - momentum)"), effective);
    const auto [batch, rate] = effective.front();
    chart.add_line(named(curve, "linear rule"), line_of(curve, [&](double x) { return rate * x / batch; }),
                   Chart::Stroke::dashed);
    chart.add_line(named(curve, "square root rule"),
                   line_of(curve, [&](double x) { return rate * std::sqrt(x / batch); }), Chart::Stroke::dotted);
  }
  return chart.svg();
}

std::string branches_picture(const StudyResults& results, const std::vector<BranchCurve>& branches) {
  const StudyConfig& study = results.study;
  Chart chart(fmt::format("{} after {} examples of each batch", study.goal.metric.text(), *study.budget.examples),
              "batch", std::string(study.goal.metric.text()));
  const double worse = (study.goal.metric.is_better(0, 1) ? 1 : -1) * study.branch_from.tolerance;
  for (const BranchCurve& curve : branches) {
    std::vector<Chart::Point> points;
    for (const BranchPoint& point : curve.points)
      if (point.value) points.push_back({point.batch, *point.value});
    if (points.empty()) continue;
    chart.add_points(curve.name.empty() ? "measured" : curve.name, points);
    if (!curve.reference) continue;
    const double limit = *curve.reference + worse;
    chart.add_line(curve.name.empty() ? "tolerated" : fmt::format("tolerated ({})", curve.name),
                   {{curve.points.front().batch, limit}, {curve.points.back().batch, limit}}, Chart::Stroke::dashed);
  }
  return chart.svg();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> study_pictures(const StudyResults& results,
                                                                const std::vector<ScalingCurve>& curves,
                                                                const std::vector<BranchCurve>& branches) {
  if (std::ranges::any_of(branches, [](const BranchCurve& curve) { return curve.reference.has_value(); }))
    return {{"branches.svg", branches_picture(results, branches)}};
  bool any = false;
  for (const ScalingCurve& curve : curves) any = any || !curve.steps.empty();
  if (!any) return {};
  return {{"steps_to_goal.svg", steps_picture(results, curves)}, {"learning_rate.svg", rates_picture(curves)}};
}

}  // namespace lockstep
