// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

/// When this process began, but for what came before its first line: the launcher, and the loading of libraries. By the
/// clock that nobody sets (not /proc, which containers make up).
std::chrono::steady_clock::time_point process_start();
/// Since then.
double seconds_since_process_start();

/// Largest resident memory of this process so far.
std::int64_t peak_rss_bytes();
/// Of this process now.
std::int64_t resident_bytes();

}  // namespace lockstep
