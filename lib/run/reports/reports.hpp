// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset/dataset.hpp"
#include "nn/loss.hpp"
#include "run/deck/run_config.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

/// Where the planned run takes place: on this machine; on other nodes, whose disks are not those of this machine; or on
/// another machine, which does not have the checkpoints of the run's folder either, from which a run here would go on
/// (run.resume: auto).
enum class PlannedRun { here, on_other_nodes, elsewhere };

struct PlanReport {
  std::string text;
  std::optional<Error> refusal;      ///< why a run could not begin in its folders; to be thrown after the plan
  std::vector<std::string> remarks;  ///< warnings: see run_remarks
};

/// Returns what `lockstep check` prints: layers with shapes and parameters, and the operations, memory and all-reduced
/// bytes of a step on `ranks`. Opens the deck's files, and throws for what is wrong with them, but allocates nothing
/// for a step. Builds for devices also say what they plan for (see described_device).
PlanReport plan_report(const RunConfig& config, RankCount ranks, PlannedRun run);

/// Returns what `lockstep check --schedule` prints: the learning rate at some twenty steps of the run. Opens the deck's
/// files.
std::string schedule_report(const RunConfig& config);

/// Seconds of a step in total, and in the phases that depend on what is computed.
struct TimedStep {
  double total = 0, forward = 0, backward = 0, optimizer = 0;
};

struct TimedSteps {
  std::vector<TimedStep> steps;
  std::int64_t all = 0;  ///< number of steps of the whole run
};

/// Does steps of the deck's run, at least `least`, and more until `seconds` are over (on one rank only, which alone may
/// decide when to end). Asynchronous and backup ranks do several steps at once, of which each counts as their mean, and
/// none after the run's last step. Nothing of the run is left. Collective.
TimedSteps timed_steps(const RunConfig& config, const Communicator& comm, std::size_t least, double seconds = 0);

/// Returns what `lockstep check --time` prints: the time of the deck's whole run on these ranks, estimated from three
/// of its timed_steps (or fewer, of a shorter run), of which nothing is left. Collective.
std::string time_report(const RunConfig& config, const Communicator& comm);

/// Result of `lockstep check --data`.
struct DataScan {
  std::string text;     ///< a line for each dataset
  bool is_bad = false;  ///< there are numbers that are not finite, or classes, targets or row numbers out of range
};

/// Reads and checks all examples of a dataset. `classes`: number of classes of the network; 0: targets are values.
/// `tables`: see Graph::tables_of_data.
DataScan scan(const Dataset& data, const Loss& loss, std::int64_t classes, std::span<const std::int64_t> tables);

/// Scans all datasets of a deck.
DataScan scan_data(const RunConfig& config);

struct ReportOptions {
  std::vector<std::filesystem::path> runs;  ///< output folders of the runs
  std::string sort;                         ///< one of report_sort_keys; empty: in the given order
  bool csv = false;
};

/// Keys by which runs can be sorted: results and speed.
std::vector<std::string> report_sort_keys();

/// Returns what `lockstep report` prints: a table of the runs' results, speed, and scaling efficiency against the first
/// run of the same work; the keys in which their decks differ; and where ranks spend their time. As CSV, it leaves the
/// last part out. Folders without a run cause warnings, unless all are. Throws Error(missing_file, bad_data).
std::string scaling_report(const ReportOptions& options);

}  // namespace lockstep
