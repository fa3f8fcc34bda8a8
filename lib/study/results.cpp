// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/results.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "io/output_file.hpp"
#include "run/deck/deck_values.hpp"
#include "run/monitor/metrics_file.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

constexpr const char* advice_on_lines =
    "correct that line, or remove the trial's folder (the trial is run again unless the ledger has it)";

/// Calls `take` at each row of the file.
void read_rows(const std::filesystem::path& file, const std::function<void(const MetricsReader&)>& take) {
  MetricsReader reader(file);
  const std::vector<std::string>& columns = reader.columns();
  if (columns.empty()) return;
  for (const char* needed : {"step", "split"})
    validate(std::ranges::find(columns, needed) != columns.end(), ExitStatus::bad_data,
             "{}: line 1 has no column {} (the file has been changed); {}", file.string(), needed, advice_on_lines);
  while (reader.next()) {
    validate(reader.cells() == columns.size(), ExitStatus::bad_data,
             "{}: line {} has {} cells, not {} as line 1 (the file has been changed); {}", file.string(),
             reader.line_number(), reader.cells(), columns.size(), advice_on_lines);
    take(reader);
  }
}

std::optional<double> number_in(const MetricsReader& row, std::string_view column) {
  const std::string& cell = row.cell(column);
  if (cell.empty()) return std::nullopt;
  return std::strtod(cell.c_str(), nullptr);
}

constexpr std::string_view mark = "# Kept by Lockstep";

constexpr const char* data_name = "data.yaml";

/// True for a file that keep has written.
bool is_kept(const fs::path& file) {
  std::error_code none;
  return fs::exists(file, none) && read_text_file(file.string()).starts_with(mark);
}

std::string kept_text(const std::string& what, const std::string& text) {
  return fmt::format("{}: {}.\n{}", mark, what, text);
}

void keep(const fs::path& file, const std::string& what, const std::string& text) {
  replace_text_file(file, kept_text(what, text));
}

std::optional<std::int64_t> resolution_of(const TrialRecord& best) {
  const std::vector<TrialReport>& reports = best.curve.reports;
  if (!best.curve.goal_step) return std::nullopt;
  return reports.back().step - (reports.size() > 1 ? reports[reports.size() - 2].step : 0);
}

std::vector<std::optional<std::int64_t>> steps_by_seed(const StudyConfig& study,
                                                       const std::vector<TrialRecord>& records, std::size_t group) {
  if (study.seeds == 1 || !study.goal.value) return {};
  std::vector<std::optional<std::int64_t>> fewest(static_cast<std::size_t>(study.seeds));
  for (const TrialRecord& record : records) {
    if (record.id.group != group || !record.curve.goal_step) continue;
    auto& steps = fewest[static_cast<std::size_t>(record.id.index % study.seeds)];
    steps = std::min(steps.value_or(*record.curve.goal_step), *record.curve.goal_step);
  }
  return fewest;
}

void add_best(GroupResult& result, const TrialPlan& plan, const TrialRecord& best) {
  const StudyConfig& study = plan.study();
  result.best = best;
  result.steps_to_goal = best.curve.goal_step;
  result.resolution = resolution_of(best);
  result.value = best_value(best.curve, study.goal);
  RunConfig deck = plan.deck(best.id);
  const DeckValues values = deck_values(write_config(deck), "the deck of the best trial");
  const std::string* momentum = find_value(values, "optimizer.momentum");
  result.learning_rate = deck.optimizer.rule().learning_rate;
  result.effective_rate = *result.learning_rate *
                          deck.schedule.batch_rule().factor(static_cast<double>(deck.batch.global)) /
                          (1 - (momentum ? number_of(*momentum).value_or(0) : 0));
  result.noise_scale = read_noise_scale(plan.folder(best.id) / "metrics.csv");
  const std::vector<double> places = plan.places(best.id);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (study.space.dimensions[i].is_at_border(places[i])) result.at_border.push_back(study.space.keys[i]);
}

}  // namespace

std::vector<TrialReport> read_curve(const std::filesystem::path& file, const GoalOptions& goal) {
  std::vector<TrialReport> reports;
  read_rows(file, [&](const MetricsReader& row) {
    if (row.cell("split") != "validation") return;
    Metrics metrics{.loss = number_in(row, "loss").value_or(0), .accuracy = number_in(row, "accuracy")};
    if (const auto value = number_in(row, goal.metric.name())) metrics.others.push_back({goal.metric.name(), *value});
    reports.push_back({std::strtoll(row.cell("step").c_str(), nullptr, 10), goal.value_of(metrics)});
  });
  return reports;
}

std::optional<double> read_noise_scale(const std::filesystem::path& file) {
  std::optional<double> last;
  read_rows(file, [&](const MetricsReader& row) {
    if (const auto value = number_in(row, "noise_scale")) last = value;
  });
  return last;
}

std::optional<double> best_value(const TrialCurve& curve, const GoalOptions& goal) {
  std::optional<double> best;
  for (const TrialReport& report : curve.reports)
    if (report.value) best = best ? better(goal, *best, *report.value) : *report.value;
  return best;
}

const TrialRecord* best_of(const std::vector<TrialRecord>& records, std::size_t group, const GoalOptions& goal) {
  const TrialRecord* best = nullptr;
  const auto is_better = [&](const TrialRecord& a, const TrialRecord& b) {
    if (a.curve.goal_step || b.curve.goal_step)
      return a.curve.goal_step && (!b.curve.goal_step || *a.curve.goal_step < *b.curve.goal_step);
    const std::optional<double> x = best_value(a.curve, goal), y = best_value(b.curve, goal);
    return x && (!y || goal.metric.is_better(*x, *y));
  };
  for (const TrialRecord& record : records)
    if (record.id.group == group && is_feasible(record.outcome) && (!best || is_better(record, *best))) best = &record;
  return best;
}

std::string GroupResult::name_without_batch() const {
  const std::size_t comma = name.find(", ");
  return comma == std::string::npos ? "" : name.substr(comma + 2);
}

std::string GroupResult::shortcoming(const StudyConfig& study) const {
  const std::int64_t wanted = study.is_ensemble() ? study.trials() : 1;
  if (feasible >= wanted) return "";
  return study.is_ensemble() ? fmt::format("{}: {} of the ensemble's {} members are feasible", name, feasible, wanted)
                             : fmt::format("{}: none of {} trials is feasible", name, trials);
}

void refuse_foreign_files(const fs::path& folder) {
  const auto refuse = [&](std::string_view name) {
    const fs::path file = folder / name;
    std::error_code none;
    validate(!fs::exists(fs::symlink_status(file, none)), ExitStatus::cannot_create,
             "{}: was not written by a study, and is not replaced; choose another output_dir, or move that file away",
             file.string());
  };
  for (const char* name : {"study.yaml", "base.yaml", data_name})
    if (!is_kept(folder / name)) refuse(name);
  // A study keeps itself before it writes its first report.
  if (!is_kept(folder / "study.yaml")) std::ranges::for_each(report_names, refuse);
}

void keep_study(const fs::path& folder, const TrialPlan& plan) {
  StudyConfig study = plan.study();
  study.base = "base.yaml";
  if (study.branch_from.present) study.branch_from.checkpoint = fs::absolute(plan.study().branch_file());
  keep(folder / "study.yaml", "the study, with every key", write_config(study));
  keep(folder / "base.yaml", "the study's base deck", plan.base());
}

void keep_data(const fs::path& folder, const std::string& fingerprints, bool continues) {
  const fs::path file = folder / data_name;
  const std::string what = "the data of the base deck";
  if (continues && fs::exists(file)) {
    const auto [was, is] = first_difference(read_text_file(file.string()), kept_text(what, fingerprints));
    validate(was == is, ExitStatus::bad_data,
             "{}: the data of the base deck have changed since the study began (they were '{}' and are '{}'), so that "
             "trials could not be compared; restore them, or give another output_dir",
             file.string(), was, is);
  }
  keep(file, what, fingerprints);
}

StudyResults read_results(const fs::path& folder) {
  const fs::path file = folder / "study.yaml";
  validate(fs::exists(file), ExitStatus::missing_file,
           "{}: no such file (so this is not the folder of a study); give the output folder of a study", file.string());
  StudyConfig study = read_study_config(parse_deck(read_text_file(file.string()), file.string()));
  study.output_dir = folder.string();
  const TrialPlan plan(study, read_text_file(study.base_file()));
  StudyResults results{.study = study, .records = read_ledger(folder / "ledger.jsonl"), .groups = {}};
  std::ranges::sort(results.records, {}, [](const TrialRecord& r) { return std::pair(r.id.group, r.id.index); });
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const TrialGroup& of = plan.groups()[group];
    GroupResult& result = results.groups.emplace_back();
    result.name = of.name, result.batch = of.batch, result.budget = of.budget;
    for (const TrialRecord& record : results.records) {
      if (record.id.group != group) continue;
      ++result.trials;
      result.feasible += is_feasible(record.outcome) ? 1 : 0;
      result.pruned += record.outcome == TrialOutcome::pruned ? 1 : 0;
      result.steps_run += record.steps_run;
    }
    result.steps_by_seed = steps_by_seed(study, results.records, group);
    if (const TrialRecord* best = best_of(results.records, group, study.goal)) add_best(result, plan, *best);
  }
  return results;
}

}  // namespace lockstep
