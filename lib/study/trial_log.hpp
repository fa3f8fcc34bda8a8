// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/log.hpp"

namespace lockstep {

/// While it lives, what a trial says of itself goes to its file `log.txt`. Lines of the study pass it by. One at a
/// time.
class TrialLog {
 public:
  /// `speaks`: this rank is the first one of its slot; others are silent. Makes the folder.
  TrialLog(const std::filesystem::path& folder, bool speaks);
  TrialLog(const TrialLog&) = delete;
  TrialLog& operator=(const TrialLog&) = delete;
  ~TrialLog();

  /// A line of the study, in the program's own log.
  static void study_line(LogLevel level, std::string_view line);

 private:
  std::ofstream file_;
  bool spoke_;
  static inline TrialLog* current = nullptr;
};

}  // namespace lockstep
