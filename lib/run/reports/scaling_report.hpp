// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

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
