// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/curve_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "base/error.hpp"
#include "monitor/metrics_file.hpp"

namespace lockstep {
namespace {

using Row = std::map<std::string, std::string, std::less<>>;

constexpr const char* advice_on_lines =
    "correct that line, or remove the trial's folder (the trial is run again unless the ledger has it)";

/// Returns the complete lines of the file.
std::vector<Row> rows_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return {};
  const std::vector<std::string> columns = cells_of(line);
  for (const char* needed : {"step", "split"})
    validate(std::ranges::find(columns, needed) != columns.end(), ExitStatus::bad_data,
             "{}: line 1 has no column {} (the file has been changed); {}", file.string(), needed, advice_on_lines);
  std::vector<Row> rows;
  while (std::getline(in, line) && !in.eof()) {
    const std::vector<std::string> cells = cells_of(line);
    validate(cells.size() == columns.size(), ExitStatus::bad_data,
             "{}: line {} has {} cells, not {} as line 1 (the file has been changed); {}", file.string(),
             rows.size() + 2, cells.size(), columns.size(), advice_on_lines);
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) row.emplace(columns[i], cells[i]);
  }
  return rows;
}

std::optional<double> number_in(const Row& row, std::string_view column) {
  const auto cell = row.find(column);
  if (cell == row.end() || cell->second.empty()) return std::nullopt;
  return std::strtod(cell->second.c_str(), nullptr);
}

}  // namespace

std::vector<TrialReport> read_curve(const std::filesystem::path& file, const GoalOptions& goal) {
  std::vector<TrialReport> reports;
  for (const Row& row : rows_of(file)) {
    if (row.at("split") != "validation") continue;
    Metrics metrics{.loss = number_in(row, "loss").value_or(0), .accuracy = number_in(row, "accuracy")};
    if (const auto value = number_in(row, goal.metric.name())) metrics.others.push_back({goal.metric.name(), *value});
    reports.push_back({std::strtoll(row.at("step").c_str(), nullptr, 10), goal.value_of(metrics)});
  }
  return reports;
}

std::optional<double> read_noise_scale(const std::filesystem::path& file) {
  std::optional<double> last;
  for (const Row& row : rows_of(file))
    if (const auto value = number_in(row, "noise_scale")) last = value;
  return last;
}

}  // namespace lockstep
