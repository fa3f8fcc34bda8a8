// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

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
