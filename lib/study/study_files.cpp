// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/study_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const GroupResult& group) {
  Json json = {{"name", group.name},
               {"batch", group.batch},
               {"budget_steps", group.budget},
               {"trials", group.trials},
               {"feasible", group.feasible},
               {"pruned", group.pruned},
               {"steps_run", group.steps_run},
               {"steps_to_goal", or_null(group.steps_to_goal)},
               {"best_result", or_null(group.value)},
               {"learning_rate", or_null(group.learning_rate)},
               {"effective_learning_rate", or_null(group.effective_rate)},
               {"noise_scale", or_null(group.noise_scale)},
               {"at_border", group.at_border}};
  for (const auto& steps : group.steps_by_seed) json["steps_by_seed"].push_back(or_null(steps));
  if (!group.best) return json;
  Json settings = Json::object();
  for (const auto& [key, value] : group.best->settings) settings[key] = value;
  json["best"] = {{"trial", group.best->id.index}, {"seed", group.best->seed}, {"settings", settings}};
  return json;
}

Json json_of(const ScalingCurve& curve) {
  Json json = {{"name", curve.name}};
  if (const auto& fit = curve.fit) {
    json["fit"] = {{"steps_min", fit->least_steps},           {"critical_batch", fit->critical_batch},
                   {"critical_batch_low", or_null(fit->low)}, {"critical_batch_high", or_null(fit->high)},
                   {"examples_min", fit->least_examples()},   {"deviation", fit->deviation}};
    Json regimes = Json::object();
    for (const BatchSteps& point : curve.steps)
      regimes[fmt::format("{:.0f}", point.batch)] =
          regime_names[static_cast<std::size_t>(regime_of(*fit, point.batch))];
    json["regimes"] = regimes;
  }
  if (const auto& largest = curve.largest_efficient)
    json["largest_efficient_batch"] = {{"batch", largest->batch}, {"is_limit", largest->is_limit}};
  json["learning_rate_power"] = or_null(curve.rate_power);
  return json;
}

Json json_of(const BranchCurve& curve) {
  Json json = {{"name", curve.name},
               {"critical_batch", or_null(curve.critical_batch)},
               {"is_limit", curve.is_limit},
               {"points", Json::array()}};
  for (const BranchPoint& point : curve.points)
    json["points"].push_back(
        {{"batch", point.batch}, {"learning_rate", point.learning_rate}, {"result", or_null(point.value)}});
  return json;
}

}  // namespace

std::string measurements_csv(const StudyResults& results) {
  std::string text = "group,batch,trial,seed,outcome";
  for (const std::string& key : results.study.space.keys) text += "," + csv_cell(key);
  text += fmt::format(",step,{}\n", results.study.goal.metric.text());
  for (const TrialRecord& record : results.records) {
    if (record.id.group >= results.groups.size()) continue;
    const GroupResult& group = results.groups[record.id.group];
    std::string begin = fmt::format("{},{},{},{},{}", csv_cell(group.name), group.batch, record.id.index, record.seed,
                                    outcome_names[static_cast<std::size_t>(record.outcome)]);
    for (const auto& [key, value] : record.settings) begin += "," + csv_cell(value);
    for (const TrialReport& report : record.curve.reports)
      text += fmt::format("{},{},{}\n", begin, report.step, report.value ? fmt::format("{:.9g}", *report.value) : "");
  }
  return text;
}

std::string study_json(const StudyResults& results, const std::vector<ScalingCurve>& curves,
                       const std::vector<BranchCurve>& branches) {
  const GoalOptions& goal = results.study.goal;
  Json json = {{"metric", goal.metric.text()}, {"goal", goal.value ? Json(*goal.value) : Json(goal.best)}};
  json["groups"] = Json::array();
  for (const GroupResult& group : results.groups) json["groups"].push_back(json_of(group));
  json["curves"] = Json::array();
  for (const ScalingCurve& curve : curves) json["curves"].push_back(json_of(curve));
  json["branches"] = Json::array();
  for (const BranchCurve& curve : branches) json["branches"].push_back(json_of(curve));
  return json.dump(2) + "\n";
}

}  // namespace lockstep
