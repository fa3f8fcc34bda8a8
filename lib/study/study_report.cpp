// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/study_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/replace_file.hpp"
#include "study/branches.hpp"
#include "study/pictures.hpp"
#include "study/results.hpp"
#include "study/scaling_curve.hpp"
#include "study/study_files.hpp"

namespace lockstep {
namespace {

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
