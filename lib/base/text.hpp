// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// True for bytes that a terminal interprets instead of printing.
bool is_control(char c);

/// Prepares text for a one-line message: control characters become \x1b escapes, and text beyond `most` bytes loses its
/// middle.
std::string for_message(std::string_view text, std::size_t most);

/// True if `name` matches the shell pattern: * matches anything, ? one character.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// Returns the text as a CSV cell, quoted where RFC 4180 requires it.
std::string csv_cell(const std::string& text);

/// Returns the first pair of lines in which two texts differ, without indentation; "nothing" for a text that has ended.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b);

/// A number and what it counts, for example "1 rank" or "2 ranks". `what` is a word whose plural ends with s.
std::string counted(std::int64_t count, std::string_view what);

/// Formats a size as "812 B", "1.50 KB" or "3.27 GB"; units are powers of 1000.
std::string bytes_text(double bytes);

}  // namespace lockstep
