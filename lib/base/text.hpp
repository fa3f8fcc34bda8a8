// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// Result of decoding the first character of a text (RFC 3629).
struct Utf8Character {
  std::size_t bytes = 0;  ///< length of its encoding; 0: invalid or cut off
  bool cut_off = false;   ///< the text ends within a valid beginning of a character
  std::uint32_t code_point = 0;
};
/// Decodes the first character of `text`, which must not be empty.
Utf8Character first_character(std::string_view text);

/// Code points of a text up to its first invalid byte.
struct CodePoints {
  std::vector<std::uint32_t> points;
  std::size_t bytes = 0;  ///< bytes decoded; the size of the text if it is valid UTF-8
};
CodePoints decode_utf8(std::string_view text);

std::string encode_utf8(const std::vector<std::uint32_t>& code_points);

}  // namespace lockstep
