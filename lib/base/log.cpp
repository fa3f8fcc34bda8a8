// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/heartbeat.hpp"

namespace lockstep {
namespace {

/// Waits up to one second until the reader of this descriptor's pipe has taken everything; 20 ms for a terminal, which
/// gives no such information. Launchers may drop output of an ended rank that they have not read yet; and after half a
/// line, Open MPI's launcher continues with the next line of any stream (OpenPMIx, issue 3858).
void wait_for_reader(int descriptor) {
  struct stat file = {};
  if (fstat(descriptor, &file) != 0) return;
  if (isatty(descriptor) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!S_ISFIFO(file.st_mode)) return;
  int unread = 0;  // bytes
  for (int i = 0; i < 1000 && ioctl(descriptor, FIONREAD, &unread) == 0 && unread > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void last_words_as(std::string_view kind, std::string_view line) {
  const std::string text = fmt::format("{}: {}\n", kind, line);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::atomic<bool> enabled = true;

/// Called when the log's reader has gone or the disk is full. The run continues: one warning, no error.
void log_failed(const std::string& why) {
  static std::once_flag said;
  std::call_once(said, [&] { last_words_as("warning", fmt::format("the log can no longer be written ({})", why)); });
}

spdlog::logger& to_stdout() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    made->set_pattern("%v");
    made->set_error_handler(log_failed);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::logger& to_stderr() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%l: %v");
    made->set_error_handler([](const std::string&) {});  // a failure of standard error cannot be reported anywhere
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

std::mutex sink_lock;
LogSink sink;  // empty: lines go to the standard streams

/// Passes the line to the sink, if there is one; returns whether there is. A failure of the sink does not end the run.
bool given_to_sink(LogLevel level, std::string_view line) {
  LogSink to;
  {
    const std::lock_guard guard(sink_lock);
    to = sink;
  }
  if (!to) return false;
  try {
    to(level, line);
  } catch (const std::exception& error) {
    log_failed(error.what());
  } catch (...) {
    log_failed("it threw something that is no std::exception");
  }
  return true;
}

}  // namespace

bool enable_log(bool on) { return enabled.exchange(on); }

void set_log_sink(LogSink given) {
  const std::lock_guard guard(sink_lock);
  sink = std::move(given);
}

void log_line(std::string_view line) {
  const UsesFiles files;
  if (!enabled || given_to_sink(LogLevel::info, line)) return;
  errno = 0;
  to_stdout().info("{}", line);
  const int error = errno;
  if (std::ferror(stdout) != 0) log_failed(std::strerror(error));  // spdlog does not check the result of fflush
}
void warn_line(std::string_view line) {
  const UsesFiles files;
  if (enabled && !given_to_sink(LogLevel::warning, line)) to_stderr().warn("{}", line);
}
void error_line(std::string_view text) {
  wait_for_reader(STDOUT_FILENO);
  for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!given_to_sink(LogLevel::error, line)) to_stderr().error("{}", line);
  }
  wait_for_reader(STDERR_FILENO);
}

void write_unbuffered(std::string_view line) {
  last_words_as("error", line);
  wait_for_reader(STDERR_FILENO);
}

}  // namespace lockstep
