// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "monitor/metrics_file.hpp"
#include "monitor/step_times.hpp"
#include "train/evaluator.hpp"

namespace lockstep {

/// What a run says of itself as it goes on, in the log and, on rank 0, in metrics.csv; rates and times are of the
/// steps since the last line.
class Progress {
 public:
  explicit Progress(int ranks) : ranks_(ranks) {}

  /// Continues the file after its first `rows` rows (0: begins it anew).
  void open(const std::filesystem::path& metrics, std::int64_t rows) { file_.emplace(metrics, rows); }
  /// None but on rank 0.
  std::optional<MetricsFile>& file() { return file_; }

  /// A step of all ranks has ended. `reduce_seconds`: that it has waited for sums over ranks.
  void step_done(double seconds, double reduce_seconds, std::int64_t examples);

  struct Step {
    std::int64_t number, epoch, left;  ///< left: steps
    Metrics metrics;
    double gradient_norm, learning_rate;
    bool skipped = false;  ///< it has been left out, and its norm says nothing
    std::optional<double> loss_scale, noise_scale;
  };
  void log(const Step& step);
  /// Of a split: "validation". `row`: in the file, too.
  void log_evaluation(const std::string& split, std::int64_t step, std::int64_t epoch, const Metrics& metrics,
                      bool row);

  // Since the start of this process.
  const StepTimes& times() const { return times_; }
  std::int64_t examples() const { return now_.examples; }
  double reduce_seconds() const { return now_.reduce_seconds; }

 private:
  struct Totals {
    std::int64_t steps = 0, examples = 0;
    double seconds = 0, reduce_seconds = 0;
  };

  int ranks_;
  std::optional<MetricsFile> file_;
  StepTimes times_;
  Totals now_, logged_;  ///< logged_: at the last line
};

}  // namespace lockstep
