// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace lockstep {

/// Output for people. Only the rank that `enable_log` named speaks (rank 0), but errors always do. Returns what it was.
bool enable_log(bool enabled);

enum class LogLevel { info, warning, error };
/// Where lines go from now on, instead of the standard streams (which an empty sink means). Called by any
/// thread, and by several at once; what it throws is passed over.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;
void set_log_sink(LogSink sink);

void log_line(std::string_view line);    ///< standard output
void warn_line(std::string_view line);   ///< standard error, "warning: …"
void error_line(std::string_view text);  ///< standard error, "error: …", each line, whatever enable_log said
/// As error_line, past all buffers and locks: the process may hang in one of them.
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
