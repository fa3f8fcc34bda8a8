// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/resilience/signals.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/communicator.hpp"
#include "core/device.hpp"
#include "train/phase_clock.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::pair<int, const char*>, 5> signals{
    {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"}}};

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
  // The launcher and the scheduler may both pass on the same request.
  constexpr std::int64_t same_request_ns = 1000000000;
  if (first_at_ns == 0 || at - first_at_ns < same_request_ns) return;
  heartbeat().ends_by = signal;  // the watchdogs of the node's other ranks follow
  end_by_signal(signal);
}

/// Makes a thread of its own handle `taken`, and no other thread that is there now or comes later: oneDNN (up to 3.11;
/// its issue 4845) multiplies with a stack pointer that points into the heap, which the frame of a handler would
/// overwrite. Takes them also if the process was started with a mask that blocks them. Done once in every process,
/// because a child begins without its parent's threads.
void handle_apart(const sigset_t& taken) {
  static pid_t process = 0;
  if (process == ::getpid()) return;
  process = ::getpid();
  ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  std::thread([taken] {
    ::pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
    for (;;) ::pause();
  }).detach();
}

/// Returns the seconds that a variable of the environment gives; none if it is not set, or is no number, which causes a
/// warning.
std::optional<double> seconds_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return std::nullopt;
  const std::optional<double> seconds = number_of(text);
  if (!seconds)
    warn("{} is '{}' (not a number of seconds) and has no effect; correct it, or give run.wall_time", variable,
         for_message(text, 40));
  return seconds;
}

int own_rank = 0;

/// The process ends anyway, so functions that a handler must not call can do no worse than hang, which the watchdog
/// sees.
void report(int) {
  std::signal(SIGABRT, SIG_DFL);
  const Heartbeat& heart = heartbeat();
  const std::string kernel = last_kernel();
  const std::int64_t step = heart.step;
  const auto phase = phase_names[static_cast<std::size_t>(heart.phase.load())];
  write_unbuffered(fmt::format(
      "rank {} on {} aborts{}{}{}; its library's own message is above{}", own_rank, host_name(),
      heart.beats > 0 ? fmt::format(" in '{}'", phase) : "", step > 0 ? fmt::format(" of step {}", step) : "",
      kernel.empty() ? "" : fmt::format(", after kernel {} was started", kernel),
      kernel.empty()
          ? ""
          : " (with CUDA_LAUNCH_BLOCKING=1 in the environment and device.graph: off, that kernel is the one that "
            "failed)"));
  std::_Exit(static_cast<int>(ExitStatus::internal));
}

}  // namespace

void StopRequest::take_signals() {
  first_signal = 0;
  first_at_ns = 0;
  struct sigaction action{};
  action.sa_handler = take;
  action.sa_flags = SA_RESTART;
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const auto& [signal, name] : signals) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // as nohup does
    ::sigaction(signal, &action, nullptr);
    ::sigaddset(&taken, signal);
  }
  handle_apart(taken);
}

std::string StopRequest::signal() {
  const int number = signal_number();
  return number == 0 ? "" : std::string(name_of(number));
}

int StopRequest::signal_number() { return first_signal; }

std::string_view StopRequest::name_of(int number) {
  for (const auto& [signal, name] : signals)
    if (signal == number) return name;
  return "a signal";
}

StopRequest::StopRequest(std::optional<Time> end, std::optional<std::filesystem::path> file)
    : end_(end), file_(std::move(file)) {}

std::string StopRequest::reason(double seconds) {
  if (std::string name = signal(); !name.empty()) return name;
  if (end_ && std::chrono::duration<double>(*end_ - Time::clock::now()).count() < seconds) return "its time is up";
  constexpr auto between_looks = std::chrono::seconds(1);  // shared file systems do not like to be asked often
  const auto now = std::chrono::steady_clock::now();
  if (file_ && now - looked_ >= between_looks && found_.empty()) {
    looked_ = now;
    const UsesFiles files;
    std::error_code ignored;
    static constexpr int at_launcher[] = {SIGTERM, SIGINT, SIGHUP};
    if (const int signal = pending_signal(::getppid(), at_launcher))
      found_ = fmt::format("{} at the launcher", name_of(signal));
    else if (std::filesystem::exists(*file_, ignored)) found_ = fmt::format("the file {}", file_->string());
    if (!found_.empty()) log("{}: the run stops at a checkpoint after this step", found_);
  }
  return found_;
}

void StopRequest::done() {
  std::error_code ignored;
  if (file_) std::filesystem::remove(*file_, ignored);
}

std::optional<StopRequest::Time> end_of_job(std::optional<double> wall_time) {
  using Time = StopRequest::Time;
  const auto after = [](Time start, double seconds) {
    constexpr double farthest = 4e9;  // more than a century, and well within the clock's nanoseconds
    return start + std::chrono::duration_cast<Time::duration>(
                       std::chrono::duration<double>(std::clamp(seconds, -farthest, farthest)));
  };
  const Time now = Time::clock::now();
  const double date = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::optional<Time> end;
  const auto sooner = [&](Time other) {
    if (!end || other < *end) end = other;
  };
  if (wall_time) sooner(after(process_start(), *wall_time));
  const auto of_job = [&](const char* name, Time other) {
    if (other > now) sooner(other);
    else warn("{} says that the job's time is over, and is ignored", name);
  };
  for (const char* name : {"LOCKSTEP_JOB_END_TIME", "SLURM_JOB_END_TIME"})
    if (const auto seconds = seconds_in(name)) of_job(name, after(now, *seconds - date));
  if (const auto seconds = seconds_in("PBS_WALLTIME")) of_job("PBS_WALLTIME", after(process_start(), *seconds));
  return end;
}

void report_aborts(int rank) {
  own_rank = rank;
  std::signal(SIGABRT, report);
}

}  // namespace lockstep
