// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// When this process began, but for what came before its first line: the launcher, and the loading of libraries. By the
/// clock that nobody sets (not /proc, which containers make up).
std::chrono::steady_clock::time_point process_start();
/// Since then.
double seconds_since_process_start();

/// Process numbers mean something only among processes of the same one. 0: not known.
std::uint64_t process_namespace();

/// "nodea-4711": this process's host and number, with nothing in it that a file's name had better not have.
std::string process_name();

/// Field `number` of /proc/PROCESS/stat, as proc(5) counts them (3: state, 22: when it began); empty where it cannot be
/// seen.
std::string process_field(std::int64_t process, int number);
/// One of the signals in `wanted` that waits at a process because it blocks it; 0: none.
int pending_signal(std::int64_t process, std::span<const int> wanted);
/// Whether there is no such process (any more), or only its exit status, which nobody has asked for.
bool process_has_ended(std::int64_t process);

/// This process among those that were started together, as the environment variables of Open MPI, PMIx, PMI or Slurm
/// say: known before MPI has started. One of one, where none of them has started it.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_launcher = false;
};
LaunchedRank launched_rank();

/// Ranks that were started together; where no launcher has started this process, those that the batch job that it runs
/// in has asked for (Slurm), else 1.
int requested_ranks();

/// The cores of this machine that this process may run on, each by the number of its first hardware thread.
std::vector<int> usable_cores();

/// As the signal does by default, so that whoever waits for this process sees that (128 + its number, in a shell). May
/// be called by a signal's handler.
[[noreturn]] void end_by_signal(int number);

/// Largest resident memory of this process so far.
std::int64_t peak_rss_bytes();
/// Memory that this process has now.
std::int64_t resident_bytes();

}  // namespace lockstep
