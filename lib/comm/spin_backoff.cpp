// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/spin_backoff.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/process.hpp"
#include "comm/surviving_ranks.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

/// True if other threads compete for this thread's core: it waited for the core for more than a tenth of the last
/// moments.
bool shares_its_core(Clock::time_point now) {
  constexpr auto often_enough = std::chrono::milliseconds(10);
  thread_local Clock::time_point looked;
  thread_local std::chrono::nanoseconds waited{};
  thread_local bool shared = false;
  const Clock::duration between = now - looked;
  if (between < often_enough) return shared;
  const std::chrono::nanoseconds before = std::exchange(waited, waited_for_core());
  looked = now;
  return shared = waited - before > between / 10;
}

}  // namespace

void SpinBackoff::pause() {
  look_for_losses();
  using std::chrono::microseconds;
  constexpr microseconds moment(20), longer(300), most(1000);
  [[maybe_unused]] thread_local const int precise = ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);  // ns, instead of 50 µs
  const Clock::time_point now = Clock::now();
  if (!since_) since_ = now;
  const Clock::duration waited = now - *since_;
  if (waited < moment) return;
  const bool shared = shares_its_core(now);
  if (!shared && waited < longer) return;
  if (!waits_) waits_.emplace();
  std::this_thread::sleep_for(shared ? std::clamp<Clock::duration>(waited / 8, moment, most) : moment);
}

}  // namespace lockstep
