// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

struct ReportOptions {
  std::vector<std::filesystem::path> runs;  ///< their output folders
  std::string sort;                         ///< one of report_sort_keys; empty: as they are given
  bool csv = false;
};

/// What runs can be sorted by: results and speed.
std::vector<std::string> report_sort_keys();

/// What `lockstep report` prints of runs: results, speed, and scaling beside the first run of the same work; where
/// their decks differ; and where ranks spend their time. Or the first two as CSV. Throws Error(missing_file, bad_data).
std::string scaling_report(const ReportOptions& options);

}  // namespace lockstep
