// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Wishes that a run ends before its time, at a checkpoint: signals to this rank (SIGTERM, SIGINT, SIGUSR1, SIGUSR2,
/// and SIGHUP unless it is ignored), the end of the job's time, a file that somebody makes, and a signal that waits at
/// the launcher (this process's parent) because it was started with SIGTERM, SIGINT or SIGHUP blocked.
class StopRequest {
 public:
  using Time = std::chrono::steady_clock::time_point;  // whatever becomes of the date

  /// Takes the signals from now on, to the end of the process: one that comes when the run is over must not change its
  /// status. A second one, a second or more after the first, ends the process at once, as it would by default, and all
  /// ranks of its node (by their Watchdog): that harms no checkpoint. To be called before other threads are there: they
  /// compute, and a thread beside them handles the signals.
  static void take_signals();
  /// The one that has come, by name; empty: none has. For waits before a run's first step.
  static std::string signal();
  /// Its number; 0: none has.
  static int signal_number();
  static std::string_view name_of(int number);

  /// `end`: of the time that the run has; `file`: asks for a stop. Without a file nobody looks for it, nor at the
  /// launcher.
  StopRequest(std::optional<Time> end, std::optional<std::filesystem::path> file);

  /// Why the next step has to be the last one: "SIGUSR1", "the time is up", …; empty: it does not. `seconds`: that this
  /// step, and what must follow it, may take.
  std::string reason(double seconds);
  /// The run has stopped: the file has done its duty.
  void done();

 private:
  std::optional<Time> end_;
  std::optional<std::filesystem::path> file_;
  std::chrono::steady_clock::time_point looked_{};  ///< for the file, and at the launcher
  std::string found_;
};

/// When the time ends that this process has: `wall_time` seconds after its start, or what the scheduler has told the
/// job in its environment, if that is sooner. LOCKSTEP_JOB_END_TIME and SLURM_JOB_END_TIME are seconds since 1970;
/// PBS_WALLTIME is the whole job's, in seconds, of which the job script has used an unknown part: as if it were none.
/// A job's end that is past already is an earlier job's, and one that is no number is warned of; `wall_time` holds
/// whatever it is.
std::optional<StopRequest::Time> end_of_job(std::optional<double> wall_time);

}  // namespace lockstep
