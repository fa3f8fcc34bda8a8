// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/metrics_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "nn/metrics/metric.hpp"

namespace lockstep {
namespace {

constexpr std::string_view columns =
    "step,epoch,split,loss,accuracy,learning_rate,loss_scale,grad_norm,examples_per_s,step_ms,noise_scale,reduce_exposed_ms";

/// Returns the reader's row with these columns.
std::string rearranged(const MetricsReader& reader, const std::vector<std::string>& wanted) {
  std::vector<std::string> cells;
  for (const std::string& column : wanted) cells.push_back(reader.cell(column));
  return fmt::format("{}", fmt::join(cells, ","));
}

std::string field(const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; }

/// Returns the first `rows` rows of the file, with the columns of this header.
std::string keep_rows(const std::filesystem::path& path, std::int64_t rows, const std::string& header) {
  MetricsReader reader(path);
  const std::vector<std::string> wanted = cells_of(header);
  std::string kept;
  std::int64_t found = 0;
  for (; found < rows && reader.next(); ++found)
    kept += (reader.columns() == wanted ? reader.line() : rearranged(reader, wanted)) + "\n";
  if (found < rows)
    warn("{}: has only {} of the {} rows that it had at the checkpoint; the curve has a gap", path.string(), found,
         rows);
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t rows, std::vector<std::string> metrics)
    : metrics_(std::move(metrics)) {
  if (rows > 0) {
    const MetricsReader earlier(path);
    for (const std::string& column : earlier.columns())
      if (find_metric(column) && std::ranges::find(metrics_, column) == metrics_.end()) metrics_.push_back(column);
  }
  std::string header(columns);
  for (const std::string& name : metrics_) header += "," + name;
  const std::string kept = header + "\n" + (rows > 0 ? keep_rows(path, rows, header) : "");
  rows_ = std::ranges::count(kept, '\n') - 1;  // less the header
  file_.emplace(path, kept);
}

void MetricsFile::write(const MetricsRow& row) {
  std::string line = fmt::format("{},{},{},{:.9g},{},{},{},{},{},{},{},{}", row.step, row.epoch, row.split, row.loss,
                                 field(row.accuracy), field(row.learning_rate), field(row.loss_scale),
                                 field(row.grad_norm), field(row.examples_per_s), field(row.step_ms),
                                 field(row.noise_scale), field(row.reduce_exposed_ms));
  for (const std::string& name : metrics_) {
    const auto found = std::ranges::find(row.others, name, &MetricValue::name);
    line += "," + (found == row.others.end() ? "" : field(found->value));
  }
  ++rows_;
  file_->append(line + "\n");
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == ',') cells.emplace_back();
    else cells.back() += c;
  return cells;
}

MetricsReader::MetricsReader(const std::filesystem::path& file) : in_(file) {
  if (std::getline(in_, line_)) columns_ = cells_of(line_);
}

bool MetricsReader::next() {
  if (!std::getline(in_, line_) || in_.eof()) return false;
  cells_ = cells_of(line_);
  ++line_number_;
  return true;
}

const std::string& MetricsReader::cell(std::string_view column) const {
  static const std::string empty;
  const auto place = static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
  return place < std::min(columns_.size(), cells_.size()) ? cells_[place] : empty;
}

}  // namespace lockstep
