// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// Runs `lockstep study`: trains the study's trials on all ranks, and goes on where an earlier start has stopped.
/// `base`: text of the base deck. Collective.
ExitStatus run_study(StudyConfig study, const std::string& base, const Communicator& world);

/// The results of a study so far.
struct StudyReport {
  std::string text;          ///< steps to the goal, the three regimes, the best points
  std::string shortcomings;  ///< groups without an answer: without any feasible trial or, in an ensemble, without all
                             ///< members
  /// Texts of files, with their names: some of report_names.
  std::vector<std::pair<std::string, std::string>> files;
};

/// Throws what read_results throws.
StudyReport study_report(const std::filesystem::path& folder);
/// Writes the report's files to the study's folder. Throws cannot_create, io_error.
void write_files(const StudyReport& report, const std::filesystem::path& folder);

}  // namespace lockstep
