// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "io/output_file.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* header_key = "lockstep_study";

Json json_of(const TrialRecord& record) {
  Json reports = Json::array();
  for (const TrialReport& report : record.curve.reports)
    reports.push_back({report.step, report.value ? Json(*report.value) : Json()});
  Json settings = Json::object();
  for (const auto& [key, value] : record.settings) settings[key] = value;
  Json json = {{"group", record.id.group},
               {"trial", record.id.index},
               {"outcome", outcome_names[static_cast<std::size_t>(record.outcome)]},
               {"steps", record.steps()},
               {"goal_step", record.curve.goal_step ? Json(*record.curve.goal_step) : Json()},
               {"settings", settings},
               {"seed", record.seed},
               {"reports", reports}};
  if (!record.curve.rungs.empty()) json["rungs"] = record.curve.rungs;
  if (!record.message.empty()) json["message"] = record.message;
  json["run"] = {{"steps", record.steps_run}, {"seconds", record.seconds}, {"slot", record.slot}};
  return json;
}

TrialRecord record_of(const Json& json) {
  TrialRecord record{.id = {json.at("group"), json.at("trial")}};
  const auto name = std::ranges::find(outcome_names, json.at("outcome").get<std::string>());
  if (name == std::end(outcome_names)) throw std::runtime_error("unknown outcome");
  record.outcome = static_cast<TrialOutcome>(name - std::begin(outcome_names));
  for (const auto& [key, value] : json.at("settings").items()) record.settings.emplace_back(key, value);
  record.seed = json.at("seed");
  record.message = json.value("message", "");
  TrialCurve& curve = record.curve;
  for (const Json& report : json.at("reports"))
    curve.reports.push_back(
        {report.at(0), report.at(1).is_null() ? std::nullopt : std::optional<double>(report.at(1))});
  if (!json.at("goal_step").is_null()) curve.goal_step = json["goal_step"].get<std::int64_t>();
  if (json.contains("rungs")) curve.rungs = json["rungs"].get<std::vector<double>>();
  curve.complete = record.outcome == TrialOutcome::reached || record.outcome == TrialOutcome::complete;
  const Json& run = json.at("run");
  record.steps_run = run.at("steps"), record.seconds = run.at("seconds"), record.slot = run.at("slot");
  return record;
}

struct Contents {
  std::string identity;
  std::vector<TrialRecord> records;
  std::uint64_t bytes = 0;  ///< bytes of complete lines
};

Contents read_contents(const fs::path& file) {
  const std::string text = read_text_file(file.string());
  Contents contents;
  std::int64_t number = 0;
  try {
    for (std::size_t end = 0; (end = text.find('\n', contents.bytes)) != std::string::npos; contents.bytes = end + 1) {
      ++number;
      const Json json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(contents.bytes),
                                    text.begin() + static_cast<std::ptrdiff_t>(end));
      if (number == 1) contents.identity = json.at(header_key);
      else contents.records.push_back(record_of(json));
      if (number > 1 && std::ranges::count(contents.records, contents.records.back().id, &TrialRecord::id) > 1)
        throw std::runtime_error("its trial has a line before it");
    }
    if (number == 0) throw std::runtime_error("the file has no complete line");
  } catch (const std::exception& error) {
    throw Error(
        ExitStatus::bad_data,
        fmt::format("{}: line {} is not a line of a study's ledger ({}); move the file and the folder trials away, or "
                    "give another output_dir",
                    file.string(), std::max<std::int64_t>(1, number), error.what()));
  }
  return contents;
}

}  // namespace

std::int64_t TrialRecord::steps() const {
  const std::vector<TrialReport>& reports = curve.reports;
  const std::int64_t evaluated = reports.empty() ? 0 : reports.back().step;
  const bool evaluation_ends_it = is_feasible(outcome) || (!reports.empty() && !reports.back().value);
  return evaluation_ends_it ? evaluated : std::max(evaluated, steps_run);
}

Ledger::Ledger(const fs::path& file, const fs::path& trials, const std::string& identity) {
  const auto begin_anew = [&] { replace_text_file(file, Json{{header_key, identity}}.dump() + "\n"); };
  // A trial that is not in the ledger yet may have a checkpoint, from which it would go on with other settings.
  const bool none_has_begun = !fs::exists(trials) || fs::is_empty(trials);
  if (!fs::exists(file)) {
    validate(none_has_begun, ExitStatus::bad_deck,
             "{}: has trials, but {}, which names their study, is missing; move that folder away, or give another "
             "output_dir",
             trials.string(), file.string());
    begin_anew();
  }
  Contents contents = read_contents(file);
  if (none_has_begun && contents.records.empty() && contents.identity != identity) {
    begin_anew();
    contents = read_contents(file);
  }
  const auto [was, is] = first_difference(contents.identity, identity);
  validate(contents.identity == identity, ExitStatus::bad_deck,
           "{}: is the ledger of another study (it has '{}' where this one has '{}'); give another output_dir, or move "
           "the file and {} away",
           file.string(), was, is, trials.string());
  records_ = std::move(contents.records);
  bytes_ = contents.bytes;
  fs::resize_file(file, bytes_);  // cuts off a line that a killed process has begun
  file_.emplace(file, RawFile::Access::change);
}

void Ledger::append(const TrialRecord& record) {
  const std::string line = json_of(record).dump() + "\n";
  file_->write(bytes_, line.data(), line.size());
  file_->flush_to_disk();
  bytes_ += line.size();
  records_.push_back(record);
}

std::vector<TrialRecord> read_ledger(const fs::path& file) { return read_contents(file).records; }

}  // namespace lockstep
