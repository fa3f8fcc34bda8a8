// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/curve_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "monitor/metrics_reader.hpp"

namespace lockstep {
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

}  // namespace lockstep
