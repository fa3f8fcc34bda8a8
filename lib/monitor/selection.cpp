// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

std::string name_of(ValidationMetric metric) {
  return std::string(validation_metric_names[static_cast<std::size_t>(metric)]);
}

/// None where there is nothing to compare: a loss that is not finite.
std::optional<double> value_of(const Metrics& metrics, ValidationMetric metric) {
  const std::optional<double> value = metric == ValidationMetric::validation_loss ? metrics.loss : metrics.accuracy;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool is_better(ValidationMetric metric, double value, double than) {
  return metric == ValidationMetric::validation_loss ? value < than : value > than;
}

void describe_evaluation(StateFields& fields, std::string_view key, Selection::Evaluation& evaluation) {
  fields.array(key, [&](StateFields& entries) {
    entries.integer("step", evaluation.step);
    entries.real("value", evaluation.value);
  });
}

void describe_metric(Fields& fields, ValidationMetric& metric, std::string_view help) {
  fields.choice("metric", metric, validation_metric_names, help);
}

}  // namespace

void TargetOptions::describe(Fields& fields) {
  describe_metric(fields, metric, "what is looked at after each evaluation");
  fields.number("value", value, any_number, "an accuracy at least this, or a loss at most this, ends the run",
                Presence::required);
}

void PatienceOptions::describe(Fields& fields) {
  describe_metric(fields, metric, "what is looked at after each evaluation");
  fields.integer("evaluations", evaluations, at_least_one,
                 "so many in a row, none of which is better than the best before them, end the run",
                 Presence::required);
}

void KeepBestOptions::describe(Fields& fields) {
  describe_metric(fields, metric, "by which evaluation results are compared");
  fields.integer("count", count, at_least_one, "checkpoints that are kept, beside the newest ones");
}

Selection::Selection(const Options& options) : options_(options) { forget_what_is_not_wanted(); }

void Selection::describe_state(StateFields& fields) {
  if (fields.restores()) state_ = {};
  const auto describe = [this](StateFields& f) {
    f.text("target", state_.target);
    f.flag("target_reached", state_.target_reached);
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
  if (fields.has("selection")) {
    fields.section("selection", describe);
  } else {  // before version 0.2
    fields.flag("target_reached", state_.target_reached);
    fields.text("target", state_.target);
  }
  if (fields.restores()) forget_what_is_not_wanted();
}

void Selection::forget_best(const std::function<bool(std::int64_t step)>& is_gone) {
  std::erase_if(state_.best, [&](const Evaluation& evaluation) { return is_gone(evaluation.step); });
}

void Selection::forget_what_is_not_wanted() {
  const auto same = [](std::string& was, const std::string& is) { return std::exchange(was, is) == is; };
  const auto& [target, patience, keep_best] = options_;
  if (!same(state_.target, target.present ? fmt::format("{} {}", name_of(target.metric), target.value) : ""))
    state_.target_reached = false;
  if (!same(state_.patience_metric, patience.present ? name_of(patience.metric) : "")) {
    state_.patience_best.reset();
    state_.without_improvement = 0;
  }
  if (!same(state_.best_metric, keep_best.present ? name_of(keep_best.metric) : "")) state_.best.clear();
  if (state_.best.size() > static_cast<std::size_t>(keep_best.count))
    state_.best.resize(static_cast<std::size_t>(keep_best.count));
}

bool Selection::inspect(std::int64_t step, const Metrics& metrics) {
  const auto& [target, patience, keep_best] = options_;
  if (target.present) {
    const std::optional<double> value = value_of(metrics, target.metric);
    state_.target_reached = value && !is_better(target.metric, target.value, *value);
  }
  if (patience.present) {
    const std::optional<double> value = value_of(metrics, patience.metric);
    if (value && (!state_.patience_best || is_better(patience.metric, *value, state_.patience_best->value))) {
      state_.patience_best = {step, *value};
      state_.without_improvement = 0;
    } else {
      ++state_.without_improvement;
    }
  }
  if (!keep_best.present) return false;
  const std::optional<double> value = value_of(metrics, keep_best.metric);
  if (!value) return false;
  std::vector<Evaluation>& best = state_.best;
  const auto place = std::ranges::find_if(
      best, [&](const Evaluation& other) { return is_better(keep_best.metric, *value, other.value); });
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
