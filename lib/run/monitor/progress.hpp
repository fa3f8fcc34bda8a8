// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective/executor.hpp"
#include "run/monitor/metrics_file.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Durations of steps: their total, and quantiles of the newest ones (at most 4096).
class StepTimes {
 public:
  void add(double seconds) {
    recent_[static_cast<std::size_t>(count_ % window)] = seconds;
    ++count_;
    total_ += seconds;
  }
  std::int64_t count() const { return count_; }
  double total() const { return total_; }
  /// Returns the quantile `q` of the newest steps' seconds; 0 before the first step.
  double quantile(double q, std::int64_t newest = window) const {
    const auto n = std::min({count_, window, newest});
    if (n == 0) return 0;
    std::vector<double> sorted;
    for (auto i = count_ - n; i < count_; ++i) sorted.push_back(recent_[static_cast<std::size_t>(i % window)]);
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(n - 1) + 0.5);
    std::nth_element(sorted.begin(), at, sorted.end());
    return *at;
  }

 private:
  static constexpr std::int64_t window = 4096;
  std::array<double, window> recent_{};
  std::int64_t count_ = 0;
  double total_ = 0;
};

struct MeasuredSteps;

/// Reports on a run in progress, in the log and, on rank 0, in metrics.csv. Rates and times are of the steps since the
/// last line.
class Progress {
 public:
  /// `metrics`: those of evaluations; see metric_names. `parameters`: which parameters evaluations use, for the log,
  /// such as "ema"; empty: those after the last step.
  Progress(int ranks, std::vector<std::string> metrics, const std::string& parameters = "")
      : ranks_(ranks), metrics_(std::move(metrics)), evaluated_(parameters.empty() ? "" : " (" + parameters + ")") {}

  /// Continues the file after its first `rows` rows (0: begins a new one).
  void open(const std::filesystem::path& metrics, std::int64_t rows) { file_.emplace(metrics, rows, metrics_); }
  /// None on other ranks than rank 0.
  std::optional<MetricsFile>& file() { return file_; }

  /// Notes that `steps` steps of all ranks have taken `seconds` together. `exposed`: seconds for which they have waited
  /// for other ranks. `examples`: of all ranks.
  void steps_done(std::int64_t steps, double seconds, const Trainer::ExposedSeconds& exposed, std::int64_t examples);

  /// What the curves show of a step.
  struct Row {
    std::int64_t number, epoch, left;  ///< `left`: steps left in the run
    bool skipped = false;              ///< the gradient norm has no meaning
    LoggedMetrics numbers;
    LoggedScales scales;
  };
  void log(const Row& step);
  /// Logs the metrics of a split ("validation"). `row`: whether to write them to the file as well.
  void log_evaluation(const std::string& split, std::int64_t step, std::int64_t epoch, const Metrics& metrics,
                      bool row);

  /// Durations of the steps that this process has done.
  const StepTimes& times() const { return times_; }
  /// Returns measurements of all steps of this process. `clock`: has the times of their phases. Collective.
  MeasuredSteps measured(const Communicator& ranks, PhaseClock& clock) const;

 private:
  struct Totals {
    std::int64_t steps = 0, examples = 0;
    std::int64_t sent_bytes = 0;  ///< sent by this rank to other ranks in steps, in messages of the program's own sums
    double seconds = 0, reduce_seconds = 0;
  };

  int ranks_;
  std::vector<std::string> metrics_;
  std::string evaluated_;  ///< which parameters are evaluated, after a split's name in the log
  std::optional<MetricsFile> file_;
  StepTimes times_;
  Totals now_, logged_;                       ///< logged_: totals at the last line
  std::optional<double> statistics_seconds_;  ///< seconds for which steps have waited for other ranks' batch norms, if
                                              ///< they do
  std::int64_t sent_before_ = scheduled_bytes_sent();  ///< bytes sent before the next step
};

}  // namespace lockstep
