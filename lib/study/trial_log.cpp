// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_log.hpp"

#include <mutex>

namespace lockstep {
namespace {

/// The sink has a mutex because other threads than the step's write as well.
LogSink sink_of(std::ofstream& file) {
  return [&file](LogLevel level, std::string_view line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    file << (level == LogLevel::warning ? "warning: " : "") << line << std::endl;
  };
}

}  // namespace

TrialLog::TrialLog(const std::filesystem::path& folder, bool speaks) : spoke_(enable_log(speaks)) {
  if (!speaks) return;
  std::filesystem::create_directories(folder);
  file_.open(folder / "log.txt", std::ios::app);
  current = this;
  set_log_sink(sink_of(file_));
}

TrialLog::~TrialLog() {
  set_log_sink({});
  current = nullptr;
  enable_log(spoke_);
}

void TrialLog::study_line(LogLevel level, std::string_view line) {
  if (current) set_log_sink({});
  level == LogLevel::warning ? warn_line(line) : log_line(line);
  if (current) set_log_sink(sink_of(current->file_));
}

}  // namespace lockstep
