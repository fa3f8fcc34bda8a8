// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

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
