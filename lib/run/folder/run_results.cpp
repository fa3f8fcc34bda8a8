// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/folder/run_results.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text_file.hpp"
#include "config/deck.hpp"
#include "nn/metrics/metric.hpp"
#include "run/folder/run_folder.hpp"
#include "run/monitor/metrics_file.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

RunResults::Split split_of(const Json& json) {
  RunResults::Split split;
  for (const auto& [name, value] : json.items())
    if (!value.is_null()) split.emplace(name, value.get<double>());
  return split;
}

void read_summary(const fs::path& file, RunResults& run) {
  try {
    const Json json = Json::parse(read_text_file(file.string()));
    run.status = json.at("status");
    run.ranks = json.at("ranks").get<std::int64_t>();
    if (json.contains("lost_ranks")) run.lost_ranks = static_cast<double>(json["lost_ranks"].size());
    run.threads = json.at("threads").get<std::int64_t>();
    run.examples_per_step = json.at("examples_per_step").get<std::int64_t>();
    run.steps = json.at("steps").get<std::int64_t>();
    if (json.contains("steps_to_target") && !json["steps_to_target"].is_null())
      run.steps_to_target = json["steps_to_target"].get<std::int64_t>();
    run.train = split_of(json.at("train"));
    run.validation = split_of(json.at("validation"));
    if (json.contains("test")) run.test = split_of(json["test"]);
    if (json.contains("staleness")) run.staleness = json["staleness"].at("mean").get<double>();
    if (json.contains("discarded_examples")) run.discarded_examples = json["discarded_examples"].get<std::int64_t>();
    if (const double rate = json.at("examples_per_s"); rate > 0) {  // 0: its last process has done no step
      run.examples_per_s = rate;
      run.step_ms = json.at("step_ms").at("median").get<double>();
    }
    for (const auto& [phase, spread] : json.at("ranks_ms").items())
      run.spreads.push_back({phase, spread.at("min"), spread.at("mean"), spread.at("max"), spread.at("slowest_rank")});
    run.deck = deck_values(json.at("deck").dump(), file.string());
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: is not the summary of a run ({}); give the output folder of a run", file.string(),
                            error.what()));
  }
}

/// Returns the value of a cell; none if it is empty or not finite.
template <class T>
std::optional<T> number_in(std::string_view cell) {
  T value{};
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (code != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(static_cast<double>(value)))
    return std::nullopt;
  return value;
}

void read_last_rows(const fs::path& file, RunResults& run) {
  MetricsReader reader(file);
  while (reader.next()) {
    run.steps = number_in<std::int64_t>(reader.cell("step"));
    RunResults::Split row;
    for (const std::string_view name : evaluation_names())
      if (const auto value = number_in<double>(reader.cell(name))) row.emplace(name, *value);
    if (reader.cell("split") == "train") run.train = row;
    if (reader.cell("split") == "validation") run.validation = row;
  }
}

/// Whether folders in this one are output folders of runs.
bool holds_runs(const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (std::error_code ignored; fs::exists(entry->path() / "deck.yaml", ignored)) return true;
  return false;
}

}  // namespace

RunResults read_run_results(const fs::path& path) {
  const fs::path folder = path.filename() != "summary.json" ? path : path.has_parent_path() ? path.parent_path() : ".";
  const fs::path summary = folder / "summary.json", deck = folder / "deck.yaml";
  RunResults run{.name = folder.string()};
  if (fs::exists(summary)) {
    read_summary(summary, run);
    return run;
  }
  const std::string text = fs::exists(deck) ? read_text_file(deck.string()) : "";
  validate(
      text.starts_with(resolved_deck_begins), ExitStatus::missing_file,
      "{}: no such file, and no run's deck.yaml next to it (no run has started there); give the output folder of a "
      "run{}",
      summary.string(), holds_runs(folder) ? fmt::format(", or all those in this one: {}/*", run.name) : "");
  run.status = "unfinished";
  run.deck = deck_values(text, deck.string());
  read_last_rows(folder / "metrics.csv", run);
  return run;
}

}  // namespace lockstep
