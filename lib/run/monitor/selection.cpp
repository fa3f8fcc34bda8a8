// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/fields.hpp"
#include "nn/metrics/metric.hpp"

namespace lockstep {
namespace {

/// Names of all metrics that evaluations may have.
std::span<const std::string_view> validation_names() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all;
    for (const std::string_view name : evaluation_names())
      all.push_back(fmt::format("{}{}", ValidationMetric::prefix, name));
    return all;
  }();
  static const std::vector<std::string_view> names(texts.begin(), texts.end());
  return names;
}

void describe_evaluation(StateFields& fields, std::string_view key, Selection::Evaluation& evaluation) {
  fields.array(key, [&](StateFields& entries) {
    entries.integer("step", evaluation.step);
    entries.real("value", evaluation.value);
  });
}

}  // namespace

std::optional<double> ValidationMetric::value_of(const Metrics& metrics) const {
  const std::optional<double> value = metrics.find(name());
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool ValidationMetric::is_better(double value, double than) const {
  return better_of(name()) == Better::less ? value < than : value > than;
}

std::string ValidationMetric::problem_with(double value) const {
  const Range range = values_of(name());
  const auto is_in = [&](double number) { return range.min <= number && number <= range.max; };
  if (is_in(value)) return "";
  const bool is_share = range.min == 0 && range.max == 1;
  return fmt::format(
      "{} is out of range ({} is {}); {}", value, text_, is_share ? "a share, 0 to 1" : range_text(range),
      is_share && is_in(value / 100) ? fmt::format("write {:.12g}", value / 100) : "give a value in this range");
}

void ValidationMetric::describe(Fields& fields, std::string_view help) {
  const std::span<const std::string_view> names = validation_names();
  int index = static_cast<int>(std::ranges::find(names, text_) - names.begin());
  fields.choice("metric", index, names, help);
  text_ = names[static_cast<std::size_t>(index)];
}

void TargetOptions::describe(Fields& fields) {
  metric.describe(fields, "metric that is checked after each evaluation");
  fields.number("value", value, any_number,
                "the run ends when the metric reaches this value: an accuracy of at least this, a loss of at most this",
                Presence::required);
  const std::string problem = metric.problem_with(value);
  fields.check(problem.empty(), "value", problem);
}

void PatienceOptions::describe(Fields& fields) {
  fields.meant_by_value("evaluations");
  metric.describe(fields, "metric that is checked after each evaluation");
  fields.integer("evaluations", evaluations, at_least_one,
                 "number of evaluations in a row without a new best value after which the run ends",
                 Presence::required);
}

void KeepBestOptions::describe(Fields& fields) {
  fields.meant_by_value("count");
  metric.describe(fields, "metric by which evaluations are compared");
  fields.integer("count", count, at_least_one,
                 "number of best checkpoints that are kept, in addition to the newest ones");
}

Selection::Selection(const Options& options) : options_(options) { forget_what_is_not_wanted(); }

void Selection::describe_state(StateFields& fields) {
  if (fields.restores()) state_ = {};
  const auto describe = [this](StateFields& f) {
    f.text("target", state_.target);
    f.flag("target_reached", state_.target_reached);
    if (f.has("steps_to_target", state_.steps_to_target.has_value())) {
      std::int64_t steps = state_.steps_to_target.value_or(0);
      f.integer("steps_to_target", steps);
      state_.steps_to_target = steps;
    }
    f.text("patience_metric", state_.patience_metric);
    if (f.has("patience_best", state_.patience_best.has_value())) {
      if (!state_.patience_best) state_.patience_best = Evaluation{};
      describe_evaluation(f, "patience_best", *state_.patience_best);
    }
    f.integer("without_improvement", state_.without_improvement);
    f.text("best_metric", state_.best_metric);
    f.array("best", [this](StateFields& entries) {
      state_.best.resize(static_cast<std::size_t>(entries.length(static_cast<std::int64_t>(state_.best.size()))));
      for (Evaluation& evaluation : state_.best) describe_evaluation(entries, "", evaluation);
    });
  };
  fields.section("selection", describe);
  if (fields.restores()) forget_what_is_not_wanted();
}

bool Selection::forget_best(const std::function<bool(std::int64_t step)>& is_gone) {
  return std::erase_if(state_.best, [&](const Evaluation& evaluation) { return is_gone(evaluation.step); }) > 0;
}

bool Selection::forget_evaluations() {
  const bool had_any = state_.target_reached || state_.steps_to_target || state_.patience_best ||
                       state_.without_improvement > 0 || !state_.best.empty();
  state_ = {};
  forget_what_is_not_wanted();
  return had_any;
}

void Selection::forget_what_is_not_wanted() {
  const auto same = [](std::string& was, const std::string& is) { return std::exchange(was, is) == is; };
  const auto& [target, patience, keep_best] = options_;
  if (!same(state_.target, target.present ? fmt::format("{} {}", target.metric.text(), target.value) : "")) {
    state_.target_reached = false;
    state_.steps_to_target.reset();
  }
  if (!same(state_.patience_metric, patience.present ? std::string(patience.metric.text()) : "")) {
    state_.patience_best.reset();
    state_.without_improvement = 0;
  }
  if (!same(state_.best_metric, keep_best.present ? std::string(keep_best.metric.text()) : "")) state_.best.clear();
  if (state_.best.size() > static_cast<std::size_t>(keep_best.count))
    state_.best.resize(static_cast<std::size_t>(keep_best.count));
}

bool Selection::inspect(std::int64_t step, const Metrics& metrics) {
  const auto& [target, patience, keep_best] = options_;
  if (target.present) {
    const std::optional<double> value = target.metric.value_of(metrics);
    state_.target_reached = value && !target.metric.is_better(target.value, *value);
    if (state_.target_reached && !state_.steps_to_target) state_.steps_to_target = step;
  }
  if (patience.present) {
    const std::optional<double> value = patience.metric.value_of(metrics);
    if (value && (!state_.patience_best || patience.metric.is_better(*value, state_.patience_best->value))) {
      state_.patience_best = {step, *value};
      state_.without_improvement = 0;
    } else if (value || metrics.has_loss) {
      ++state_.without_improvement;
    }
  }
  if (!keep_best.present) return false;
  const std::optional<double> value = keep_best.metric.value_of(metrics);
  if (!value) return false;
  std::vector<Evaluation>& best = state_.best;
  const auto place = std::ranges::find_if(
      best, [&](const Evaluation& other) { return keep_best.metric.is_better(*value, other.value); });
  if (place - best.begin() >= keep_best.count) return false;
  best.insert(place, {step, *value});
  if (best.size() > static_cast<std::size_t>(keep_best.count)) best.pop_back();
  return true;
}

std::string Selection::reason() const {
  if (target_reached()) return fmt::format("run.target is reached ({})", state_.target);
  if (!out_of_patience()) return "";
  return fmt::format(
      "{} has not improved in {} evaluations{} (run.patience)", state_.patience_metric, state_.without_improvement,
      state_.patience_best
          ? fmt::format(" since {:.6g} at step {}", state_.patience_best->value, state_.patience_best->step)
          : "");
}

std::vector<std::int64_t> Selection::best_steps() const {
  std::vector<std::int64_t> steps;
  for (const Evaluation& evaluation : state_.best) steps.push_back(evaluation.step);
  return steps;
}

}  // namespace lockstep
