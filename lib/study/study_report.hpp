// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What is known of a study, whether it has ended or not.
struct StudyReport {
  std::string text;          ///< steps to the goal, the three regimes, the best points
  std::string shortcomings;  ///< what it has no answer for: without any feasible trial, or all members
  /// Names and texts of measurements.csv, study.json and pictures.
  std::vector<std::pair<std::string, std::string>> files;
};

/// Throws what read_results does.
StudyReport study_report(const std::filesystem::path& folder);
/// Leaves its files in the study's folder. Throws cannot_create, io_error.
void write_files(const StudyReport& report, const std::filesystem::path& folder);

}  // namespace lockstep
