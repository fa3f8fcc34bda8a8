// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

namespace lockstep {

/// Returns the seconds of a call that gives work to the default stream, as the mean of up to 1,000 calls in a row that
/// take 2 ms, so that the cost of a start and a wait does not count for calls of microseconds.
double seconds_of(const std::function<void()>& call);

/// Returns the seconds of the fastest of as many calls, at least three, as fit into half a second (on devices a tenth).
double best_seconds_of(const std::function<void()>& call);

}  // namespace lockstep
