// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run/deck/deck_values.hpp"
#include "run/monitor/summary.hpp"

namespace lockstep {

/// What a run has left in its output folder. Without a summary.json (the run is in progress, or was killed), only its
/// deck and the progress that metrics.csv shows.
struct RunResults {
  /// Metrics of one split by name, without those that are not finite.
  using Split = std::map<std::string, double, std::less<>>;

  std::string name;    ///< the folder, as it was given
  std::string status;  ///< status in summary.json, or "unfinished"
  std::optional<std::int64_t> ranks, threads, examples_per_step, steps, steps_to_target;
  Split train, validation, test;
  std::optional<double> lost_ranks, staleness, discarded_examples, examples_per_s, step_ms;
  std::vector<RankSpread> spreads;
  DeckValues deck;
};

/// Reads the run in a folder, which may be named by its summary.json. Throws Error(missing_file) for a folder without a
/// run, and Error(bad_data) for files that no run has written.
RunResults read_run_results(const std::filesystem::path& path);

}  // namespace lockstep
