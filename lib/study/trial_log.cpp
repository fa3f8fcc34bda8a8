// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_log.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/error.hpp"

namespace lockstep {

TrialLog::TrialLog(const std::filesystem::path& folder, bool speaks)
    : path_(folder / "log.txt"), spoke_(enable_log(speaks)) {
  if (!speaks) return;
  std::filesystem::create_directories(folder);
  file_.open(path_, std::ios::app);
  current = this;
  set_log_sink(sink());
}

TrialLog::~TrialLog() {
  set_log_sink({});
  current = nullptr;
  enable_log(spoke_);
}

/// The sink has a mutex because other threads than the step's write as well. It throws if the line cannot be written;
/// the next one is tried all the same.
LogSink TrialLog::sink() {
  return [this](LogLevel level, std::string_view line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    file_ << (level == LogLevel::warning ? "warning: " : "") << line << std::endl;
    const int error = errno;
    if (file_.good()) return;
    file_.clear();
    throw Error(ExitStatus::io_error, fmt::format("{}: {}", path_.string(), std::strerror(error)));
  };
}

void TrialLog::study_line(LogLevel level, std::string_view line) {
  if (current) set_log_sink({});
  level == LogLevel::warning ? warn_line(line) : log_line(line);
  if (current) set_log_sink(current->sink());
}

}  // namespace lockstep
