// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/heartbeat.hpp"

#include <chrono>
#include <thread>

namespace lockstep {
namespace {

Heartbeat unread;
std::atomic<Heartbeat*> current = &unread;
const std::thread::id main_thread = std::this_thread::get_id();

bool on_main_thread() { return std::this_thread::get_id() == main_thread; }

}  // namespace

void Heartbeat::beat() {
  since_ns.store(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1),
                 std::memory_order_relaxed);
  beats.fetch_add(1, std::memory_order_release);
}

Heartbeat& heartbeat() { return *current.load(std::memory_order_acquire); }

void move_heartbeat(Heartbeat* place) { current.store(place, std::memory_order_release); }

WaitsForRanks::WaitsForRanks() {
  if (on_main_thread()) heartbeat().waits.fetch_add(1, std::memory_order_relaxed);
}

WaitsForRanks::~WaitsForRanks() {
  if (!on_main_thread()) return;
  heartbeat().beat();  // before `waits` drops: the time spent waiting must not count as this rank's silence
  heartbeat().waits.fetch_sub(1, std::memory_order_release);
}

UsesFiles::UsesFiles() {
  if (on_main_thread()) heartbeat().files.fetch_add(1, std::memory_order_relaxed);
}

UsesFiles::~UsesFiles() {
  if (!on_main_thread()) return;
  heartbeat().beat();  // before `files` drops: then the limit is shorter
  heartbeat().files.fetch_sub(1, std::memory_order_release);
}

}  // namespace lockstep
