// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "config/deck.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN: a number that is not finite becomes null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json metrics_json(const std::optional<Metrics>& metrics) {
  Json json = Json::object();
  json["loss"] = metrics ? number(metrics->loss) : Json(nullptr);
  json["accuracy"] = metrics && metrics->accuracy ? number(*metrics->accuracy) : Json(nullptr);
  if (metrics)
    for (const MetricValue& other : metrics->others) json[std::string(other.name)] = number(other.value);
  return json;
}

std::int64_t gradients_of(const std::vector<std::int64_t>& staleness) {
  return std::accumulate(staleness.begin(), staleness.end(), std::int64_t{0});
}

double mean_staleness(const std::vector<std::int64_t>& counts) {
  double sum = 0;
  for (std::size_t tau = 0; tau < counts.size(); ++tau)
    sum += static_cast<double>(tau) * static_cast<double>(counts[tau]);
  return sum / static_cast<double>(gradients_of(counts));
}

void add_evaluations(const EvaluationResults& results, Json& json) {
  json["validation"] = metrics_json(results.validation);
  if (results.test) json["test"] = metrics_json(results.test);
  if (const auto& [metric, best] = results.best; !metric.empty())
    json["best"] = {{"step", best.step}, {metric, number(best.value)}};
  if (results.has_target)
    json["steps_to_target"] = results.steps_to_target ? Json(*results.steps_to_target) : Json(nullptr);
}

void add_steps(const MeasuredSteps& steps, Json& json) {
  json["examples_per_s"] = steps.examples_per_second();
  json["step_ms"] = {{"median", 1e3 * steps.median}, {"p99", 1e3 * steps.p99}};
  for (const auto& [phase, milliseconds] : steps.phases) json["phases_ms"][phase] = milliseconds;
  for (const RankSpread& spread : steps.spreads)
    json["ranks_ms"][spread.phase] = {
        {"min", spread.min}, {"mean", spread.mean}, {"max", spread.max}, {"slowest_rank", spread.slowest}};
  json["sent_bytes_per_step"] = steps.sent_bytes;
}

double gflops_per_rank(const Summary& s) {
  const double seconds = s.measured.seconds;
  return seconds > 0 ? 1e-9 * s.flops_per_example * static_cast<double>(s.measured.examples) / seconds / s.ranks : 0;
}

}  // namespace

RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds) {
  std::vector<std::int64_t> nanoseconds = comm.all_gather(std::llround(1e6 * milliseconds));
  const auto [least, most] = std::ranges::minmax_element(nanoseconds);
  const double sum = std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0);
  return {.phase = std::string(phase),
          .min = 1e-6 * static_cast<double>(*least),
          .mean = 1e-6 * sum / comm.size(),
          .max = 1e-6 * static_cast<double>(*most),
          .slowest = static_cast<int>(most - nanoseconds.begin())};
}

std::string spread_text(const std::vector<RankSpread>& spreads) {
  std::string text = "| ms per step | min | mean | max | slowest rank |\n|---|--:|--:|--:|--:|\n";
  for (const RankSpread& spread : spreads)
    text += fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", spread.phase, spread.min, spread.mean, spread.max,
                        spread.slowest);
  return text;
}

std::string summary_json(const Summary& s) {
  Json json;
  json["status"] = s.status;
  if (!s.failure.empty()) json["failure"] = s.failure;
  json["steps"] = s.steps;
  json["epochs"] = s.epochs;
  json["ranks"] = s.ranks;
  if (!s.lost_ranks.empty()) json["lost_ranks"] = s.lost_ranks;
  json["threads"] = s.threads;
  json["train"] = metrics_json(s.train);
  add_evaluations(s.evaluations, json);
  add_steps(s.measured, json);
  if (const std::vector<std::int64_t>& counts = s.gradients.by_staleness; !counts.empty()) {
    json["staleness"] = {{"gradients", gradients_of(counts)},
                         {"mean", mean_staleness(counts)},
                         {"largest", std::ssize(counts) - 1},
                         {"counts", counts}};
    if (s.groups) json["staleness"]["groups"] = *s.groups;
    json["discarded_examples"] = s.gradients.discarded_examples;
  }
  json["examples_per_step"] = s.examples_per_step;
  json["flops_per_step"] = s.flops_per_example * static_cast<double>(s.examples_per_step);
  json["gflops_per_rank"] = gflops_per_rank(s);
  const auto mean_ms = [](double seconds, std::int64_t count) {
    return count > 0 ? Json(1e3 * seconds / static_cast<double>(count)) : Json(nullptr);
  };
  json["checkpoints"] = {{"written", s.checkpoints.written},
                         {"write_ms", mean_ms(s.checkpoints.writing, s.checkpoints.written)},
                         {"wait_ms", mean_ms(s.checkpoints.waiting, s.checkpoints.in_background)}};
  json["start_s"] = s.start_seconds;
  json["peak_rss_bytes"] = s.peak_rss_bytes;
  json["parameters"] = s.parameters;
  json["resumed_from"] = s.resumed_from.empty() ? Json(nullptr) : Json(s.resumed_from);
  json["provenance"] = Json::parse(s.provenance);
  json["deck"] = Json::parse(deck_json(parse_deck(s.deck, "deck")));
  return json.dump(2) + "\n";
}

std::string summary_text(const Summary& s, const std::string& folder) {
  std::string text = fmt::format("{}: {} steps, {:.1f} examples/s, {:.1f} GFLOP/s per rank", s.status, s.steps,
                                 s.measured.examples_per_second(), gflops_per_rank(s));
  if (const std::optional<Metrics>& validation = s.evaluations.validation) {
    text += fmt::format(", validation loss {:.6g}", validation->loss);
    if (validation->accuracy) text += fmt::format(", accuracy {:.4f}", *validation->accuracy);
  }
  if (const auto& [metric, best] = s.evaluations.best; !metric.empty())
    text += fmt::format("; best {} {:.6g} at step {}", metric, best.value, best.step);
  if (const std::vector<std::int64_t>& counts = s.gradients.by_staleness; std::ssize(counts) > 1)
    text += fmt::format("; staleness{} {:.2f} updates, at most {}",
                        s.groups ? fmt::format(" of {} groups", *s.groups) : "", mean_staleness(counts),
                        std::ssize(counts) - 1);
  if (s.gradients.discarded_examples > 0)
    text += fmt::format("; {} examples came too late", s.gradients.discarded_examples);
  if (!s.lost_ranks.empty())
    text += fmt::format("; lost rank{} {}", s.lost_ranks.size() == 1 ? "" : "s", fmt::join(s.lost_ranks, ", "));
  if (s.ranks > 1) text += "\n" + spread_text(s.measured.spreads);
  return text + fmt::format("\nresults: {}", folder);
}

}  // namespace lockstep
