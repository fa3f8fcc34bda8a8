// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "comm/communicator.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "run/monitor/selection.hpp"
#include "train/evaluator.hpp"

namespace lockstep {

/// Time that ranks take for one part of a step, in milliseconds a step.
struct RankSpread {
  std::string phase;
  double min = 0, mean = 0, max = 0;
  int slowest = 0;  ///< the rank with the longest time
};

/// `milliseconds`: time of this rank. Returns the same on all ranks. Collective.
RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds);

/// Returns a table in Markdown.
std::string spread_text(const std::vector<RankSpread>& spreads);

/// Status of a run that the same command continues.
inline constexpr const char* stopped_status = "stopped";
/// Status of a run that has ended with an error.
inline constexpr const char* failed_status = "failed";

/// Results of a run's evaluations.
struct EvaluationResults {
  std::optional<Metrics> validation;  ///< those of the last evaluation
  std::optional<Metrics> test;        ///< at the end of the run
  Selection::Best best;               ///< by checkpoint.keep_best
  bool has_target = false;            ///< the deck has run.target
  std::optional<std::int64_t> steps_to_target;
};

/// Measurements of the steps that a process has done. Times are those of its rank.
struct MeasuredSteps {
  std::int64_t examples = 0;                           ///< of all ranks
  double seconds = 0;                                  ///< of all steps
  double median = 0, p99 = 0;                          ///< seconds of a step, among the newest ones
  std::vector<std::pair<std::string, double>> phases;  ///< milliseconds a step
  std::vector<RankSpread> spreads;                     ///< spread of each phase over ranks
  double sent_bytes = 0;  ///< bytes a step that all ranks send in messages of the program's own sums, and of parameters
                          ///< that they read

  double examples_per_second() const { return seconds > 0 ? static_cast<double>(examples) / seconds : 0; }
};

/// Contents of summary.json, in its order. Times are those of rank 0; memory is the largest of any rank.
struct Summary {
  std::string status;
  std::string failure;  ///< reason of the failure, or empty
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  int ranks = 1;
  std::vector<int> lost_ranks;  ///< numbers of the lost ranks at the start of the processes
  int threads = 1;
  std::optional<Metrics> train;  ///< those of the last logged step
  EvaluationResults evaluations;
  MeasuredSteps measured;
  GradientCounts gradients;            ///< RunTrainer::gradient_counts
  std::optional<std::int64_t> groups;  ///< number of groups of ranks (parallel.asynchronous.groups)
  std::int64_t examples_per_step = 0;  ///< examples of all ranks that count in a step with a full batch
  double flops_per_example = 0;        ///< large products only
  CheckpointWriter::Times checkpoints;
  double start_seconds = 0;  ///< from the start of the process to its first step
  std::int64_t peak_rss_bytes = 0;
  std::int64_t parameters = 0;
  std::string resumed_from;
  std::string provenance;  ///< JSON
  std::string deck;        ///< text of the resolved deck
};

std::string summary_json(const Summary& summary);
/// Returns a summary in two lines for the terminal.
std::string summary_text(const Summary& summary, const std::string& folder);

}  // namespace lockstep
