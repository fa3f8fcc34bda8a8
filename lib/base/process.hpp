// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Time at which this program's static initialization ran, on the steady clock; it excludes the launcher and the
/// loading of libraries. (/proc also has a start time, but containers falsify it.)
std::chrono::steady_clock::time_point process_start();
/// Seconds since `process_start()`.
double seconds_since_process_start();

/// Identifier of this process's PID namespace: process numbers can be compared only within one namespace. 0: unknown.
std::uint64_t process_namespace();

/// Name of this machine.
std::string host_name();
/// "nodea-4711": host name and process number, safe as part of a file name.
std::string process_name();

/// Returns field `number` of /proc/PROCESS/stat, numbered as in proc(5) from 3 on (3: state, 22: start time); empty if
/// it cannot be read.
std::string process_field(std::int64_t process, int number);
/// Returns a signal of `wanted` that is pending at the process because the process blocks it; 0: none.
int pending_signal(std::int64_t process, std::span<const int> wanted);
/// True if the process does not exist or is a zombie.
bool process_has_ended(std::int64_t process);

/// This process's rank among the processes that a launcher started together, from the environment variables of Open
/// MPI, PMIx, PMI or Slurm; available before MPI is initialized. Rank 0 of 1 if there was no launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_launcher = false;
};
LaunchedRank launched_rank();
/// Number of processes that a launcher, or srun without one, has started together. Only the first of them knows; the
/// others get 1.
int started_together();

/// Number of ranks that the launcher started; without a launcher, the number of tasks of the surrounding Slurm job, or
/// 1.
int requested_ranks();

/// Number of hardware threads that this process may run on, by its affinity; 0: unknown.
int usable_threads();
/// What the cgroups of this process (version 2) leave it of the processors' time, in cores; none: no limit.
std::optional<double> cpu_quota();
/// Bytes that can still be allocated on this machine, by /proc/meminfo and by the cgroups of this process (version 2);
/// none: unknown.
std::optional<double> available_memory();

/// Physical cores that this process may run on, each identified by the number of its first hardware thread.
std::vector<int> usable_cores();

/// Opens /dev/null in place of each standard stream that the process was started without (`>&-`), the wrong way round,
/// so that reading and writing still fail. Otherwise the next file to be opened would get the stream's number, and with
/// it the lines of the log.
void open_standard_streams();

/// Ends the process by the signal's default action, so that its parent sees that signal (in a shell: 128 + number).
/// Safe to call from a signal handler.
[[noreturn]] void end_by_signal(int number);

/// Peak resident memory of this process since its program began, in bytes; 0 where /proc does not say.
std::int64_t peak_rss_bytes();
/// Current resident memory of this process, in bytes; 0 where /proc does not say.
std::int64_t resident_bytes();

/// Gives this thread, and threads that it starts later, the policy SCHED_BATCH: on a shared core, a thread keeps its
/// time slice even if another one wakes up.
void schedule_as_batch();

/// Total time that this runnable thread has waited for a core; 0 where Linux does not count it. The first call by a
/// thread makes two system calls, each later one a single call.
std::chrono::nanoseconds waited_for_core();

/// Prepares the calling thread to be traced by `stack_trace`.
void allow_stack_trace();

/// Returns the calls on the stack of the thread that called `allow_stack_trace`, one per line, the innermost first. To
/// be called by another thread. Empty if the traced thread does not answer within a second, because it is stopped or in
/// an uninterruptible wait.
std::string stack_trace();

}  // namespace lockstep
