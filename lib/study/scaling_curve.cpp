// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/scaling_curve.hpp"

#include <algorithm>

namespace lockstep {
namespace {

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

}  // namespace

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

}  // namespace lockstep
