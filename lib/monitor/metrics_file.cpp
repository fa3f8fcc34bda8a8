// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/metrics_file.hpp"

#include <fmt/ranges.h>
#include <algorithm>
#include <fstream>
#include <utility>

#include "base/log.hpp"
#include "nn/metric_table.hpp"

namespace lockstep {
namespace {

constexpr std::string_view columns =
    "step,epoch,split,loss,accuracy,learning_rate,loss_scale,grad_norm,examples_per_s,step_ms,noise_scale,reduce_exposed_ms";

using Cells = std::vector<std::string>;

/// Returns a row that was written under `old_header`, with the columns of `header`.
std::string rearranged(const std::string& row, const Cells& old_header, const Cells& header) {
  const Cells cells = cells_of(row);
  Cells found;
  for (const std::string& column : header) {
    const auto place = static_cast<std::size_t>(std::ranges::find(old_header, column) - old_header.begin());
    found.push_back(place < cells.size() ? cells[place] : "");
  }
  return fmt::format("{}", fmt::join(found, ","));
}

std::string field(const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; }

Cells header_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return cells_of(line);
}

/// Returns the first `rows` rows of the file, with the columns of this header.
std::string keep_rows(const std::filesystem::path& path, std::int64_t rows, const std::string& header) {
  std::ifstream in(path);
  std::string kept, line, old_header;
  std::getline(in, old_header);
  std::int64_t found = 0;
  for (; found < rows && std::getline(in, line) && !in.eof(); ++found)
    kept += (old_header == header ? line : rearranged(line, cells_of(old_header), cells_of(header))) + "\n";
  if (found < rows)
    warn("{}: has only {} of the {} rows that it had at the checkpoint; the curve has a gap", path.string(), found,
         rows);
  return kept;
}

}  // namespace

std::vector<std::string> cells_of(const std::string& line) {
  Cells cells(1);
  for (const char c : line)
    if (c == ',') cells.emplace_back();
    else cells.back() += c;
  return cells;
}

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t rows, std::vector<std::string> metrics)
    : metrics_(std::move(metrics)) {
  if (rows > 0)
    for (const std::string& column : header_of(path))
      if (find_metric(column) && std::ranges::find(metrics_, column) == metrics_.end()) metrics_.push_back(column);
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

}  // namespace lockstep
