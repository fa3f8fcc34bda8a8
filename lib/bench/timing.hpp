// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

namespace lockstep {

/// Seconds of a call that gives work to the default stream: of as many calls in a row, up to 1,000, as take 2 ms, so
/// that what a start and a wait cost does not count where one call takes microseconds.
double seconds_of(const std::function<void()>& call);

/// Seconds of the fastest of the calls, at least three, that go into half a second (on devices a tenth).
double best_seconds_of(const std::function<void()>& call);

}  // namespace lockstep
