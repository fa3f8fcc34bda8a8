// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <memory>
#include <string>

namespace lockstep {
namespace {

bool enabled = true;

spdlog::logger& to_stdout() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::logger& to_stderr() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%l: %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace

void enable_log(bool on) { enabled = on; }

void log_line(std::string_view line) {
  if (enabled) to_stdout().info("{}", line);
}
void warn_line(std::string_view line) {
  if (enabled) to_stderr().warn("{}", line);
}
void error_line(std::string_view line) { to_stderr().error("{}", line); }

void last_words(std::string_view line) {
  const std::string text = fmt::format("error: {}\n", line);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace lockstep
