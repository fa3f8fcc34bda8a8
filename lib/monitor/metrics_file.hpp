// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/growing_file.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// One row of metrics.csv; what is not meaningful is left empty.
struct MetricsRow {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string split;  ///< "train" or "validation"
  double loss = 0;
  std::optional<double> accuracy, learning_rate, loss_scale, grad_norm, examples_per_s, step_ms, noise_scale,
      reduce_exposed_ms;
  std::vector<MetricValue> others;
};

/// The cells of a line of metrics.csv, one more than it has commas.
std::vector<std::string> cells_of(const std::string& line);

/// The curves of a run, a row at a time; each can be read before the next step.
class MetricsFile {
 public:
  /// Continues the file after its first `rows` rows (0: begins it anew). `metrics`: names of the last columns, after
  /// which those follow that the file has had before. Rows without a value are empty there.
  MetricsFile(const std::filesystem::path& path, std::int64_t rows, std::vector<std::string> metrics);

  void write(const MetricsRow& row);
  /// As GrowingFile's.
  void flush_to_disk() { file_->flush_to_disk(); }
  std::int64_t rows() const { return rows_; }

 private:
  std::vector<std::string> metrics_;
  std::int64_t rows_ = 0;
  std::optional<GrowingFile> file_;
};

}  // namespace lockstep
