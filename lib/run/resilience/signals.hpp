// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Requests to end a run before its time, at a checkpoint: signals to this rank (SIGTERM, SIGINT, SIGUSR1, SIGUSR2, and
/// SIGHUP unless it is ignored), the end of the job's time, a file that somebody makes, and a signal that is pending at
/// the launcher (this process's parent), because it was started with SIGTERM, SIGINT or SIGHUP blocked.
class StopRequest {
 public:
  using Time = std::chrono::steady_clock::time_point;  // whatever becomes of the date

  /// Takes the signals from now on, to the end of the process, because one that comes when the run is over must not
  /// change its status. A second signal, a second or more after the first, ends the process at once, as it would by
  /// default, and with it all ranks of its node (by their Watchdog); that harms no checkpoint. Call before there are
  /// other threads: these compute, and a thread of its own handles the signals.
  static void take_signals();
  /// Name of the signal that has come; empty: none has. For waits before a run's first step.
  static std::string signal();
  /// Number of the signal that has come; 0: none has.
  static int signal_number();
  static std::string_view name_of(int number);

  /// `end` is the end of the time that the run has. If `file` is there, it asks for a stop. Without `file`, neither the
  /// file nor the launcher is looked at.
  StopRequest(std::optional<Time> end, std::optional<std::filesystem::path> file);

  /// Returns why the next step has to be the last one: "SIGUSR1", "its time is up", …; empty if it does not. `seconds`
  /// is the time that this step, and what must follow it, may take.
  std::string reason(double seconds);
  /// Call when the run has stopped: removes the file.
  void done();

 private:
  std::optional<Time> end_;
  std::optional<std::filesystem::path> file_;
  std::chrono::steady_clock::time_point looked_{};  ///< last look for the file, and at the launcher
  std::string found_;
};

/// Returns when the time of this process ends: `wall_time` seconds after its start, or the end that the scheduler has
/// told the job in its environment, whichever is sooner. LOCKSTEP_JOB_END_TIME and SLURM_JOB_END_TIME are seconds since
/// 1970. PBS_WALLTIME is that of the whole job, in seconds; the part that the job script has used is unknown, and is
/// taken as none. A job's end that is past is an earlier job's, and is ignored; one that is no number causes a warning.
/// `wall_time` holds in any case.
std::optional<StopRequest::Time> end_of_job(std::optional<double> wall_time);

/// When this process aborts (Kokkos aborts if a device fails, and libraries if they find that something cannot be),
/// reports on which rank, in which step and, on devices, after which kernel; then ends the process with
/// ExitStatus::internal, upon which the launcher ends all ranks. Call it after MPI has started, because MPI takes the
/// signal, too.
void report_aborts(int rank);

}  // namespace lockstep
