// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The character that a text begins with (RFC 3629).
struct Utf8Character {
  std::size_t bytes = 0;  ///< 0: no character begins so
  bool cut_off = false;   ///< one begins so, but the text ends too early; bytes is 0
  std::uint32_t code_point = 0;
};
/// `text` is not empty.
Utf8Character first_character(std::string_view text);

/// The code points of a text; up to its first byte that is none.
struct CodePoints {
  std::vector<std::uint32_t> points;
  std::size_t bytes = 0;  ///< that they take: all of the text, if it is UTF-8
};
CodePoints decode_utf8(std::string_view text);

std::string encode_utf8(const std::vector<std::uint32_t>& code_points);

}  // namespace lockstep
