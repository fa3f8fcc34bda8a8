// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/patience.hpp"

#include <thread>

namespace lockstep {

void Patience::pause() {
  constexpr int at_once = 64;
  constexpr auto short_wait = std::chrono::microseconds(200);
  if (++tries_ < at_once) return;
  if (tries_ == at_once) begin_ = Clock::now();
  if (Clock::now() - begin_ < short_wait) return std::this_thread::yield();
  if (!waits_) waits_.emplace();
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace lockstep
