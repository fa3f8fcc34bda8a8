// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/study_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/duration.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// A deck's value in a form that is equal for equal values: numbers such as 0.1 and 0.10 become the same.
std::string by_value(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' ? fmt::format("{}", number) : text;
}

}  // namespace

std::optional<double> GoalOptions::value_of(const Metrics& metrics) const {
  const std::optional<double> exact = metric.value_of(metrics);
  if (!exact || !std::isfinite(metrics.loss)) return std::nullopt;
  return std::strtod(fmt::format("{:.9g}", *exact).c_str(), nullptr);
}

void GoalOptions::describe(Fields& fields) {
  metric.describe(fields, "metric that is checked after each evaluation");
  fields.number("value", value, any_number,
                "value to reach in as few steps as possible: an accuracy of at least this, a loss of at most this");
  fields.text(
      "best", best,
      "in place of value: trials look for the best result within the budget, the smallest (min) or the largest (max)",
      Presence::optional, {.pattern = "min|max", .words = "min or max"});
  static constexpr std::string_view kinds[] = {"value", "best"};
  fields.need(Needs::exactly_one, kinds, "trials could not be compared");
  const bool less_is_better = metric.is_better(0, 1);
  const std::string problem = value ? metric.problem_with(*value) : "";
  fields.check(problem.empty(), "value", problem);
  fields.check(
      best.empty() || (best == "min") == less_is_better, "best",
      fmt::format("{} of {} would be the worst result; write {}", best, metric.text(), less_is_better ? "min" : "max"));
}

std::int64_t BudgetOptions::steps_of(std::int64_t batch) const {
  const std::int64_t by_examples = examples ? *examples / batch : 0;
  if (!steps) return by_examples;
  return examples ? std::min(*steps, by_examples) : *steps;
}

void BudgetOptions::describe(Fields& fields) {
  fields.integer("steps", steps, {1, 1e12}, "largest number of steps of a trial");
  fields.integer(
      "examples", examples, {1, 1e15},
      "largest number of examples of a trial, repeated ones included; a trial takes as many whole steps as they make");
  static constexpr std::string_view kinds[] = {"steps", "examples"};
  fields.need(Needs::at_least_one, kinds, "trials would not end");
}

double BranchOptions::rate_of(std::int64_t of_batch) const {
  const double ratio = static_cast<double>(of_batch) / static_cast<double>(*batch);
  return *learning_rate * (rate == "sqrt" ? std::sqrt(ratio) : ratio);
}

void BranchOptions::describe(Fields& fields) {
  fields.path("checkpoint", checkpoint, "path of a checkpoint of a run of the base deck, relative to the study file",
              Presence::required);
  fields.text("rate", rate,
              "how the learning rate grows from that of the checkpoint: linear (with the batch) or sqrt (with its "
              "square root, for Adam and its kin)",
              Presence::required, {.pattern = "linear|sqrt", .words = "linear or sqrt"});
  fields.number("tolerance", tolerance, not_negative,
                "largest amount by which a result may be worse than that of the checkpoint's batch, in units of the "
                "goal's metric");
  fields.integer("step", step, not_negative, "step of the checkpoint, which the study itself records here");
  fields.integer("batch", batch, at_least_one,
                 "global batch that the checkpoint's next step would have had, which the study itself records here");
  fields.number("learning_rate", learning_rate, not_negative,
                "learning rate that the checkpoint's next step would have had, which the study itself records here");
}

void StudyConfig::describe(Fields& fields) {
  fields.folder_name("name", name, "name of the study (when not given: that of its file)");
  fields.path("output_dir", output_dir,
              "folder for all files that the study writes (when not given: `studies/<name>`)");
  fields.path("base", base, "path of the deck that trials start from, relative to the study file", Presence::required);
  fields.integers("batches", batches, {1, 1e9}, "values of batch.global, for each of which a search is made");
  fields.named_sections(
      "vary", vary_keys, [this](std::size_t count) { vary_values.resize(count); },
      [this](std::size_t i, Fields& section) {
        section.texts("values", vary_values[i], "values of the key");
        section.check(!vary_values[i].empty(), "values", "is empty; give at least one value");
      },
      "Other keys of the deck, for all combinations of whose values a search is made", "values");
  fields.optional_section(
      "branch_from", branch_from.present, [this](Fields& f) { branch_from.describe(f); },
      "Checkpoint from which all trials continue through the same examples, in place of a search");
  space.describe(fields, "space");
  fields.section("goal", [this](Fields& f) { goal.describe(f); }, "Goal of the trials", Presence::required);
  fields.section("budget", [this](Fields& f) { budget.describe(f); }, "Largest length of a trial", Presence::required);
  fields.integer("evaluations", evaluations, at_least_one,
                 "largest number of evaluations of a trial, evenly spaced over its budget (when not given: "
                 "run.evaluate_every of the deck)");
  fields.integer(
      "trials_feasible", trials_feasible, {1, 1e6},
      "number of trials for each batch that do not diverge (when not given: 20, or without a space as many as seeds)");
  prune.describe(fields, goal.value.has_value(), is_ensemble());
  fields.integer("ranks_per_trial", ranks_per_trial, at_least_one, "number of ranks that train a trial together");
  fields.integer("seed", seed, {0, 9007199254740992.0}, "seed of the search; the same seed gives the same points");
  fields.integer("seeds", seeds, {1, 1e6},
                 "number of runs of each point, with run.seed counted up from that of the deck");
  fields.text("wall_time", wall_time, "time that one start of the study may take, written as run.wall_time of a deck");
  check_rules(fields);
}

void StudyConfig::check_rules(Fields& fields) {
  std::set<std::string> keys(vary_keys.begin(), vary_keys.end());
  if (!batches.empty()) keys.insert("batch.global");
  for (const auto& [section, names] : {std::pair("space", &space.keys), {"vary", &vary_keys}})
    for (const std::string& key : *names)
      fields.check(!key.starts_with("run."), section,
                   fmt::format("has {}, but the study itself sets the keys of run; remove it", key));
  fields.check(keys.size() == vary_keys.size() + (batches.empty() ? 0 : 1), "vary",
               "has batch.global, which batches already gives; remove one of them");
  for (std::size_t i = 0; i < vary_keys.size(); ++i) {
    std::set<std::string> values;
    for (const std::string& value : vary_values[i])
      fields.check(
          values.insert(by_value(value)).second, "vary",
          fmt::format("gives {} the value {} twice (its trials would be run twice); remove one", vary_keys[i], value));
  }
  for (const std::string& key : space.keys) {
    fields.check(!keys.contains(key), "space", fmt::format("has {}, which is varied already; remove one of them", key));
    fields.check(key != "batch.global" || !budget.examples, "space",
                 "has batch.global, which cannot be combined with budget.examples (trials would differ in their number "
                 "of steps); give batches instead, or only budget.steps");
  }
  fields.check(std::set<std::int64_t>(batches.begin(), batches.end()).size() == batches.size(), "batches",
               "has a batch that is given twice; remove one");
  fields.check(!space.keys.empty() || trials() == seeds, "trials_feasible",
               fmt::format("{} without a space (trials would be repetitions of one point); give a space, or seeds: {}",
                           trials(), trials()));
  if (branch_from.present) {
    fields.check(batches.size() > 1, "batches",
                 "has fewer than two entries, but branches differ in their batch; give more");
    fields.check(
        space.keys.empty(), "space",
        "cannot be combined with branch_from (a branch gets its learning rate from its batch); remove one of them");
    fields.check(!keys.contains("optimizer.learning_rate"), "vary",
                 "has optimizer.learning_rate, which branches get from their batch; remove it");
    fields.check(!goal.value, "goal",
                 "has a value, which cannot be combined with branch_from (branches end after the same number of "
                 "examples, not at a goal); give best");
    fields.check(budget.examples && !budget.steps, "budget",
                 "has steps, which cannot be combined with branch_from (branches train on the same number of "
                 "examples); give only examples");
  }
  fields.check(wall_time.empty() || duration_of(wall_time), "wall_time", problem_of_duration(wall_time));
}

std::string StudyConfig::base_file() const { return fs::path(source.position.file).parent_path() / base; }

std::string StudyConfig::branch_file() const {
  return fs::path(source.position.file).parent_path() / branch_from.checkpoint;
}

void StudyConfig::require_files() const {
  const fs::path here = fs::absolute(source.position.file).parent_path();
  const auto require = [&](const char* key, const std::string& given, const std::string& file) {
    std::error_code code;
    const std::string advice = fs::exists(given, code)
                                   ? fmt::format("write {}", fs::proximate(given, here, code).string())
                                   : "check it";
    require_file_of(key, file, "the path is relative to the study file: " + advice);
  };
  with_positions(source, [&] {
    require("base", base, base_file());
    if (branch_from.present) require("branch_from.checkpoint", branch_from.checkpoint, branch_file());
  });
}

std::string StudyConfig::folder() const {
  if (!output_dir.empty()) return output_dir;
  return "studies/" + (name.empty() ? fs::path(source.position.file).stem().string() : name);
}

StudyConfig read_study_config(DeckNode file) {
  StudyConfig config;
  read_config(file, config);
  config.source = std::move(file);
  return config;
}

}  // namespace lockstep
