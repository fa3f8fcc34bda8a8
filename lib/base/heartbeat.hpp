// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// Progress of one rank, which other processes of its node may read concurrently (resilience/watchdog.hpp).
struct Heartbeat {
  std::atomic<std::uint64_t> beats{0};  ///< number of signs of life so far
  /// Time of the last beat, in ns of the steady clock, which all processes of a machine share.
  std::atomic<std::int64_t> since_ns{0};
  std::atomic<std::int64_t> step{0};     ///< current step, counted from 1; 0: none has begun
  std::atomic<std::int32_t> phase{0};    ///< phase of the run, as numbered by the trainer (RunPhase)
  std::atomic<std::int32_t> bucket{-1};  ///< gradient bucket being summed, counted from 0; -1: none
  std::atomic<std::int32_t> waits{0};    ///< > 0 while the main thread waits for other ranks
  std::atomic<std::int32_t> files{0};    ///< > 0 while the main thread uses files (UsesFiles)
  /// Second stop signal, which ends this process at once; its handler stores it for the other processes. 0: none.
  std::atomic<std::int32_t> ends_by{0};

  void beat();
  void enter(std::int32_t phase_number) {
    phase.store(phase_number, std::memory_order_relaxed);
    beat();
  }
  void sum(std::int32_t bucket_number) {
    bucket.store(bucket_number, std::memory_order_relaxed);
    beat();
  }
};

/// The heartbeat of this process.
Heartbeat& heartbeat();
/// Makes `heartbeat()` refer to `place`, which other processes can read. The caller keeps it alive.
void move_heartbeat(Heartbeat* place);

/// Marks, for its lifetime, that the main thread waits for other ranks. No effect on other threads.
class WaitsForRanks {
 public:
  WaitsForRanks();
  ~WaitsForRanks();
  WaitsForRanks(const WaitsForRanks&) = delete;
  WaitsForRanks& operator=(const WaitsForRanks&) = delete;
};

/// Marks, for its lifetime, that the main thread may have to wait for a file system, or for whoever reads the log. No
/// effect on other threads.
class UsesFiles {
 public:
  UsesFiles();
  ~UsesFiles();
  UsesFiles(const UsesFiles&) = delete;
  UsesFiles& operator=(const UsesFiles&) = delete;
};

}  // namespace lockstep
