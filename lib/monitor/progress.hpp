// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective/executor.hpp"
#include "monitor/metrics_file.hpp"
#include "monitor/step_times.hpp"
#include "train/trainer.hpp"

namespace lockstep {

struct MeasuredSteps;

/// What a run says of itself as it goes on, in the log and, on rank 0, in metrics.csv; rates and times are of the
/// steps since the last line.
class Progress {
 public:
  /// `metrics`: of evaluations; see metric_names. `parameters`: which these look at, for the log: "ema"; empty: those
  /// that steps leave.
  Progress(int ranks, std::vector<std::string> metrics, const std::string& parameters = "")
      : ranks_(ranks), metrics_(std::move(metrics)), evaluated_(parameters.empty() ? "" : " (" + parameters + ")") {}

  /// Continues the file after its first `rows` rows (0: begins it anew).
  void open(const std::filesystem::path& metrics, std::int64_t rows) { file_.emplace(metrics, rows, metrics_); }
  /// None but on rank 0.
  std::optional<MetricsFile>& file() { return file_; }

  /// So many steps of all ranks have ended, which took so long together. `exposed`: that they have waited for other
  /// ranks.
  void steps_done(std::int64_t steps, double seconds, const Trainer::ExposedSeconds& exposed, std::int64_t examples);

  struct Step {
    std::int64_t number, epoch, left;  ///< left: steps
    bool skipped = false;              ///< its norm says nothing
    StepNumbers numbers;
    StepScales scales;
  };
  void log(const Step& step);
  /// Logs the metrics of a split ("validation"). `row`: in the file, too.
  void log_evaluation(const std::string& split, std::int64_t step, std::int64_t epoch, const Metrics& metrics,
                      bool row);

  /// How long the steps took that this process has done.
  const StepTimes& times() const { return times_; }
  /// All steps of this process. `clock`: of their phases. Collective.
  MeasuredSteps measured(const Communicator& ranks, PhaseClock& clock) const;

 private:
  struct Totals {
    std::int64_t steps = 0, examples = 0;
    std::int64_t sent_bytes = 0;  ///< by this rank in steps, to other ranks, in messages of the program's own sums
    double seconds = 0, reduce_seconds = 0;
  };

  int ranks_;
  std::vector<std::string> metrics_;
  std::string evaluated_;  ///< parameters, after a split's name in the log
  std::optional<MetricsFile> file_;
  StepTimes times_;
  Totals now_, logged_;                       ///< logged_: at the last line
  std::optional<double> statistics_seconds_;  ///< that steps have waited for other ranks' batch norms, where they do
  std::int64_t sent_before_ = scheduled_bytes_sent();  ///< the step that is next
};

}  // namespace lockstep
