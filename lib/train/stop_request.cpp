// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/stop_request.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "train/summary.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::pair<int, const char*>, 4> signals{
    {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}}};

// Written by the handler.
std::atomic<int> first_signal = 0;
std::atomic<std::int64_t> first_at_ns = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

void take(int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t at = std::int64_t{1000000000} * now.tv_sec + now.tv_nsec;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_at_ns = at;
    return;
  }
  // Launcher and scheduler may both pass the same wish on.
  constexpr std::int64_t same_wish_ns = 1000000000;
  if (first_at_ns == 0 || at - first_at_ns < same_wish_ns) return;
  heartbeat().leaves_at_once = true;  // the others need not miss it
  ::_exit(static_cast<int>(ExitStatus::stopped_early));
}

std::string_view name_of(int number) {
  for (const auto& [signal, name] : signals)
    if (signal == number) return name;
  return "a signal";
}

/// All of `text`, a number that is not negative.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > 1e12) return std::nullopt;
  return value;
}

std::optional<double> variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? number_of(text) : std::nullopt;
}

std::optional<double> seconds_of(const std::string& text) {
  constexpr double minute = 60, hour = 60 * minute, day = 24 * hour;
  if (text.find(':') == std::string::npos) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
    const std::optional<double> count = number_of(std::string_view(text).substr(0, digits));
    for (const auto& [name, seconds] : {std::pair("s", 1.0), {"min", minute}, {"h", hour}, {"d", day}})
      if (count && text.substr(unit) == name) return *count * seconds;
    return std::nullopt;
  }
  std::string_view left = text;
  double seconds = 0;
  if (const std::size_t dash = left.find('-'); dash != std::string_view::npos) {
    const std::optional<double> days = number_of(left.substr(0, dash));
    if (!days) return std::nullopt;
    seconds = *days * day;
    left.remove_prefix(dash + 1);
  }
  for (const double unit : {hour, minute, 1.0}) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const std::optional<double> count = number_of(left.substr(0, end));
    if (!count || (end == left.size()) != (unit == 1.0)) return std::nullopt;
    seconds += *count * unit;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return seconds;
}

}  // namespace

std::optional<double> duration_of(const std::string& text) {
  constexpr double longest = 1e9;
  const std::optional<double> seconds = seconds_of(text);
  return seconds && *seconds > 0 && *seconds <= longest ? seconds : std::nullopt;
}

void StopRequest::take_signals() {
  first_signal = 0;
  first_at_ns = 0;
  struct sigaction action{};
  action.sa_handler = take;
  action.sa_flags = SA_RESTART;
  for (const auto& [signal, name] : signals) ::sigaction(signal, &action, nullptr);
}

StopRequest::StopRequest(std::optional<Time> end, std::optional<std::filesystem::path> file)
    : end_(end), file_(std::move(file)) {}

std::string StopRequest::reason(double seconds) {
  if (const int signal = first_signal) return std::string(name_of(signal));
  if (end_ && std::chrono::duration<double>(*end_ - std::chrono::system_clock::now()).count() < seconds)
    return "its time is up";
  constexpr auto between_looks = std::chrono::seconds(1);  // shared file systems do not like to be asked often
  const auto now = std::chrono::steady_clock::now();
  if (file_ && now - looked_ >= between_looks) {
    looked_ = now;
    std::error_code ignored;
    file_found_ = std::filesystem::exists(*file_, ignored);
  }
  return file_found_ ? fmt::format("the file {}", file_->string()) : "";
}

void StopRequest::done() {
  std::error_code ignored;
  if (file_) std::filesystem::remove(*file_, ignored);
}

std::optional<StopRequest::Time> end_of_job(std::optional<double> wall_time) {
  using Time = StopRequest::Time;
  const auto after = [](Time start, double seconds) {
    return start + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  };
  const Time now = std::chrono::system_clock::now();
  std::optional<Time> end;
  const auto sooner = [&](std::optional<Time> other) {
    if (other && *other > now && (!end || *other < *end)) end = other;
  };
  const Time start = after(now, -seconds_since_process_start());
  if (wall_time) sooner(after(start, *wall_time));
  for (const char* name : {"LOCKSTEP_JOB_END_TIME", "SLURM_JOB_END_TIME"})
    if (const auto seconds = variable(name)) sooner(after(Time{}, *seconds));
  if (const auto seconds = variable("PBS_WALLTIME")) sooner(after(start, *seconds));
  return end;
}

}  // namespace lockstep
