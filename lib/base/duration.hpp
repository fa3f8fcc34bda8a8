// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// "2:00:00", "1-12:00:00" (days-hours:minutes:seconds), "90 min", "1.5 h", "45 s", "2 d", in seconds, up to 10⁹; none
/// for anything else, a bare number among it: schedulers do not agree on its unit. After a colon or a dash, there is
/// less than one of what stands before it.
std::optional<double> duration_of(const std::string& text);

/// Why `duration_of` takes no such text, and what to do; for keys of decks.
std::string problem_of_duration(const std::string& text);

/// "1 h 02 min", "3 min 20 s", "12 s".
std::string duration_text(double seconds);

/// All of `text`, a number that is not negative; none where it is anything else.
std::optional<double> number_of(std::string_view text);

}  // namespace lockstep
