// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.hpp"
#include "train/results.hpp"

namespace lockstep {

/// A row of metrics.csv. What does not apply to it is left empty.
struct MetricsRow {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string split;  ///< "train", "validation" or "test"
  double loss = 0;
  std::optional<double> accuracy, learning_rate, loss_scale, grad_norm, examples_per_s, step_ms, noise_scale,
      reduce_exposed_ms;
  std::vector<MetricValue> others;
};

/// The curves of a run, written row by row. Each row can be read before the next step.
class MetricsFile {
 public:
  /// Continues the file after its first `rows` rows (0: begins a new one). `metrics`: names of the last columns;
  /// metrics that the file has had before follow them. Rows without a value are empty there.
  MetricsFile(const std::filesystem::path& path, std::int64_t rows, std::vector<std::string> metrics);

  void write(const MetricsRow& row);
  /// See GrowingFile::flush_to_disk.
  void flush_to_disk() { file_->flush_to_disk(); }
  std::int64_t rows() const { return rows_; }

 private:
  std::vector<std::string> metrics_;
  std::int64_t rows_ = 0;
  std::optional<GrowingFile> file_;
};

/// Returns the cells of a line of metrics.csv, one more than it has commas.
std::vector<std::string> cells_of(const std::string& line);

/// Reads a metrics.csv row by row. A line without an end is still being written, and is not a row.
class MetricsReader {
 public:
  explicit MetricsReader(const std::filesystem::path& file);

  /// Names of the columns; none if the file is empty or cannot be read.
  const std::vector<std::string>& columns() const { return columns_; }
  /// Goes to the next row; false: there is none.
  bool next();

  // The row:
  const std::string& line() const { return line_; }
  std::int64_t line_number() const { return line_number_; }
  std::size_t cells() const { return cells_.size(); }
  /// Returns the cell in a column; empty if the file has no such column, or the row is too short.
  const std::string& cell(std::string_view column) const;

 private:
  std::ifstream in_;
  std::vector<std::string> columns_;
  std::string line_;
  std::vector<std::string> cells_;
  std::int64_t line_number_ = 1;
};

}  // namespace lockstep
