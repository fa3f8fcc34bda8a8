// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

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

Json json_of(const Selection::Evaluation& evaluation) { return {evaluation.step, evaluation.value}; }
Selection::Evaluation evaluation_of(const Json& json) { return {json.at(0), json.at(1)}; }

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

std::string Selection::State::text() const {
  Json json = {{"target", target},
               {"target_reached", target_reached},
               {"patience_metric", patience_metric},
               {"patience_best", patience_best ? json_of(*patience_best) : Json()},
               {"without_improvement", without_improvement},
               {"best_metric", best_metric},
               {"best", Json::array()}};
  for (const Evaluation& evaluation : best) json["best"].push_back(json_of(evaluation));
  return json.dump();
}

Selection::State Selection::State::parse(const std::string& text) {
  const Json json = Json::parse(text);
  State state;
  state.target = json.at("target");
  state.target_reached = json.at("target_reached");
  state.patience_metric = json.at("patience_metric");
  if (const Json& best = json.at("patience_best"); !best.is_null()) state.patience_best = evaluation_of(best);
  state.without_improvement = json.at("without_improvement");
  state.best_metric = json.at("best_metric");
  for (const Json& evaluation : json.at("best")) state.best.push_back(evaluation_of(evaluation));
  return state;
}

Selection::Selection(const Options& options, State state) : options_(options), state_(std::move(state)) {
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
