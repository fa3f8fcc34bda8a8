// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace lockstep {

/// Turns this process's log lines and warnings on or off and returns the previous setting. Normally only rank 0 logs;
/// errors are always written.
bool enable_log(bool enabled);

enum class LogLevel { info, warning, error };
/// Receives all log lines instead of the standard streams; an empty sink restores these. A sink may be called by
/// several threads at once; exceptions that it throws are reported once and otherwise ignored.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;
void set_log_sink(LogSink sink);

void log_line(std::string_view line);    ///< to standard output
void warn_line(std::string_view line);   ///< to standard error, as "warning: …"
void error_line(std::string_view text);  ///< to standard error, each line as "error: …", whatever enable_log set
/// Writes an error line directly to standard error, past all buffers and locks: the process may hang in one of them.
void write_unbuffered(std::string_view line);

template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  warn_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
