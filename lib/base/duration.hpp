// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Measures wall time in seconds since its construction or last restart.
class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Returns the seconds in "2:00:00", "1-12:00:00" (days-hours:minutes:seconds), "90 min", "1.5 h", "45 s" or "2 d":
/// more than 0, at most 10⁹. Empty for anything else, including a bare number, because schedulers disagree about its
/// unit. In the colon forms each part must be less than one unit of the part before it (minutes < 60, hours after days
/// < 24).
std::optional<double> duration_of(const std::string& text);

/// Explains why `duration_of` rejects `text` and what to write instead; for errors about deck keys.
std::string problem_of_duration(const std::string& text);

/// Formats a duration for people, rounded up to whole seconds: "1 h 02 min", "3 min 20 s", "12 s".
std::string duration_text(double seconds);

/// Formats the milliseconds of a measured or predicted time, without unit or exponent: with `digits` significant digits
/// below 1000, and from there on as a whole number: "0.0217", "97.8", "21706".
std::string milliseconds_text(double seconds, int digits);

/// Parses all of `text` as a number from 0 to 10¹²; empty for anything else.
std::optional<double> number_of(std::string_view text);

}  // namespace lockstep
