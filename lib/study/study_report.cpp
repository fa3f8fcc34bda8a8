// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/study.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "io/output_file.hpp"
#include "run/monitor/chart.hpp"
#include "study/curves.hpp"
#include "study/results.hpp"

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

/// Returns a row for each evaluation of each trial.
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

/// Returns the study's results as JSON.
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

/// Returns the names and the SVG texts of a study's pictures; none if the study has no curve over batches.
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

using Rows = std::vector<std::vector<std::string>>;

/// A table with columns as wide as their cells; the first column is aligned to the left.
std::string table(const Rows& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    text += "\n";
  }
  return text;
}

template <class T>
std::string or_dash(const std::optional<T>& value) {
  return value ? fmt::format("{:.5g}", static_cast<double>(*value)) : "-";
}

std::string best_points(const StudyResults& results) {
  Rows rows{{"", "trials", "feasible", "pruned", "steps run",
             results.study.goal.value ? "steps to goal" : "best result", "trial", "learning rate", "lr/(1-momentum)",
             "noise scale"}};
  for (const GroupResult& group : results.groups)
    rows.push_back({group.name, fmt::format("{}", group.trials), fmt::format("{}", group.feasible),
                    fmt::format("{}", group.pruned), fmt::format("{}", group.steps_run),
                    results.study.goal.value ? or_dash(group.steps_to_goal) : or_dash(group.value),
                    group.best ? fmt::format("{}", group.best->id.index) : "-", or_dash(group.learning_rate),
                    or_dash(group.effective_rate), or_dash(group.noise_scale)});
  return table(rows);
}

std::string seeds_text(const StudyResults& results) {
  std::string text;
  for (const GroupResult& group : results.groups) {
    if (group.steps_by_seed.empty()) continue;
    std::vector<std::string> steps;
    for (const auto& fewest : group.steps_by_seed) steps.push_back(or_dash(fewest));
    text += fmt::format("{}: steps to goal by seed: {}; the smallest number counts\n", group.name,
                        fmt::join(steps, ", "));
  }
  return text.empty() ? "" : "\n" + text;
}

std::string interval_text(const ScalingFit& fit) {
  return fmt::format("{} to {}", fit.low ? fmt::format("{:.4g}", *fit.low) : "0",
                     fit.high ? fmt::format("{:.4g}", *fit.high) : "any");
}

std::string curve_text(const ScalingCurve& curve) {
  std::string text = curve.name.empty() ? "\n" : fmt::format("\n{}:\n", curve.name);
  Rows rows{{"batch", "steps", "examples", "vs perfect scaling", "fitted", "regime"}};
  for (const BatchSteps& point : curve.steps) {
    const double perfect = curve.steps.front().batch * curve.steps.front().steps / point.batch;
    rows.push_back({fmt::format("{:.0f}", point.batch), fmt::format("{:.0f}", point.steps),
                    fmt::format("{:.0f}", point.batch * point.steps), fmt::format("{:.2f}", point.steps / perfect),
                    curve.fit ? fmt::format("{:.0f}", curve.fit->steps_at(point.batch)) : "-",
                    curve.fit ? regime_names[static_cast<std::size_t>(regime_of(*curve.fit, point.batch))] : "-"});
  }
  if (!curve.steps.empty()) text += table(rows);
  if (const auto& fit = curve.fit)
    text += fmt::format(
        "S = S_min (1 + B_c / B): S_min = {:.4g} steps, critical batch B_c = {:.4g} (95 %: {}), E_min = {:.4g} "
        "examples; deviation {:.1f} %\n",
        fit->least_steps, fit->critical_batch, interval_text(*fit), fit->least_examples(), 100 * fit->deviation);
  else text += "no fit: at least three batches must reach the goal\n";
  if (const auto& largest = curve.largest_efficient)
    text += fmt::format("largest batch with at most 1.2 times the steps of perfect scaling: {}{:.4g}\n",
                        largest->is_limit ? "" : "at least ", largest->batch);
  if (curve.rate_power)
    text += fmt::format("the best lr/(1-momentum) grows as batch^{:.2f} (linear rule: 1, square root rule: 0.5)\n",
                        *curve.rate_power);
  return text;
}

std::string branch_text(const BranchCurve& curve, const StudyConfig& study) {
  std::string text = curve.name.empty() ? "\n" : fmt::format("\n{}:\n", curve.name);
  Rows rows{{"batch", "learning rate", std::string(study.goal.metric.text()), "vs the checkpoint's batch"}};
  for (const BranchPoint& point : curve.points)
    rows.push_back({fmt::format("{:.0f}", point.batch), fmt::format("{:.5g}", point.learning_rate),
                    or_dash(point.value),
                    point.value && curve.reference ? fmt::format("{:+.4f}", *point.value - *curve.reference) : "-"});
  text += table(rows);
  if (curve.critical_batch)
    text += fmt::format("largest batch that is worse by at most {:g} after the same number of examples: {}{:.0f}\n",
                        study.branch_from.tolerance, curve.is_limit ? "" : "at least ", *curve.critical_batch);
  return text;
}

std::string advice(const StudyResults& results) {
  std::string text;
  for (const GroupResult& group : results.groups) {
    if (!group.at_border.empty())
      text += fmt::format("{}: the best point is at an end of the range of {}; widen it there\n", group.name,
                          fmt::join(group.at_border, " and of "));
    if (results.study.goal.value && group.feasible >= results.study.trials() && !group.steps_to_goal)
      text += fmt::format(
          "{}: no trial has reached the goal within {} steps{}; give a larger budget, or a wider space\n", group.name,
          group.budget, group.value ? fmt::format(" (best: {:.5g})", *group.value) : "");
    if (group.trials > 0 && group.feasible == 0)
      text += fmt::format("{}: no trial is feasible; see trials/*/log.txt\n", group.name);
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

StudyReport study_report(const std::filesystem::path& folder) {
  const StudyResults results = read_results(folder);
  const std::vector<ScalingCurve> curves = scaling_curves(results);
  const std::vector<BranchCurve> branches = branch_curves(results);
  const GoalOptions& goal = results.study.goal;
  StudyReport report;
  std::string& text = report.text;
  text = fmt::format("{}: {} {}\n\n", folder.string(), goal.metric.text(),
                     goal.value ? fmt::format("{}", *goal.value) : goal.best);
  text += best_points(results) + seeds_text(results);
  for (const ScalingCurve& curve : curves) text += curve_text(curve);
  for (const BranchCurve& branch : branches) text += branch_text(branch, results.study);
  text += advice(results);
  std::vector<std::string> shortcomings;
  for (const GroupResult& group : results.groups)
    if (const std::string one = group.shortcoming(results.study); !one.empty()) shortcomings.push_back(one);
  // It is an answer as well that one of several batches diverges, for example.
  if (!results.study.is_ensemble() && shortcomings.size() < results.groups.size()) shortcomings.clear();
  report.shortcomings = fmt::format("{}", fmt::join(shortcomings, "; "));
  report.files = {{"measurements.csv", measurements_csv(results)},
                  {"study.json", study_json(results, curves, branches)}};
  for (const auto& [name, picture] : study_pictures(results, curves, branches))
    report.files.emplace_back(name, picture);
  return report;
}

void write_files(const StudyReport& report, const std::filesystem::path& folder) {
  for (const auto& [name, text] : report.files) replace_text_file(folder / name, text);
}

}  // namespace lockstep
