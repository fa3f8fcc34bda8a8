// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "run/deck/run_config.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

struct PredictionOptions {
  std::string machine;     ///< path of the machine's file
  std::string ranks;       ///< rising numbers, separated by commas; empty: the usual ones
  std::string plot;        ///< SVG file to write; empty: none
  bool overwrite = false;  ///< whether to replace an existing file
};

/// Returns what `lockstep predict-scaling` prints: a table with a row for each number of ranks. Throws DeckError,
/// Error(bad_usage).
std::string prediction_report(const RunConfig& config, const PredictionOptions& options);

/// Returns the line that `lockstep check --machine` adds.
std::string prediction_line(const RunConfig& config, const std::string& machine, RankCount ranks);

}  // namespace lockstep
