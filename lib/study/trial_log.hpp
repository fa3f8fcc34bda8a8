// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/log.hpp"

namespace lockstep {

/// While this exists, the log of a trial goes to the trial's file `log.txt`, except lines of the study. There is at
/// most one at a time.
class TrialLog {
 public:
  /// `speaks`: whether this rank is the first of its slot; others log nothing. Makes the folder.
  TrialLog(const std::filesystem::path& folder, bool speaks);
  TrialLog(const TrialLog&) = delete;
  TrialLog& operator=(const TrialLog&) = delete;
  ~TrialLog();

  /// Writes a line of the study to the program's own log.
  static void study_line(LogLevel level, std::string_view line);

 private:
  LogSink sink();

  std::filesystem::path path_;
  std::ofstream file_;
  bool spoke_;
  static inline TrialLog* current = nullptr;
};

}  // namespace lockstep
