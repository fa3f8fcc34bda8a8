// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// What a rank is doing, where others of its node can look on while it does it (resilience/watchdog.hpp).
struct Heartbeat {
  std::atomic<std::uint64_t> beats{0};    ///< signs of life
  std::atomic<std::int64_t> since_ns{0};  ///< of the last one, by the steady clock, which a machine's processes share
  std::atomic<std::int64_t> step{0};      ///< that is being done, from 1 on; 0: none yet
  std::atomic<std::int32_t> phase{0};     ///< of the run; the trainer knows which
  std::atomic<std::int32_t> bucket{-1};   ///< of gradients that is being summed, from 0 on; -1: none
  std::atomic<std::int32_t> waits{0};     ///< not 0: for other ranks
  std::atomic<std::int32_t> ends_by{0};   ///< a second signal, which ends it at once; set by its handler; 0: none

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

/// This process's.
Heartbeat& heartbeat();
/// Moves it to where others can read it.
void move_heartbeat(Heartbeat* place);

/// While the main thread waits for other ranks. (Other threads wait for themselves.)
class WaitsForRanks {
 public:
  WaitsForRanks();
  ~WaitsForRanks();
  WaitsForRanks(const WaitsForRanks&) = delete;
  WaitsForRanks& operator=(const WaitsForRanks&) = delete;
};

}  // namespace lockstep
