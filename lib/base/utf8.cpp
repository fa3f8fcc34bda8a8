// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/utf8.hpp"

#include <algorithm>

namespace lockstep {
namespace {

std::size_t length_from(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

/// Checks the second byte for overlong encodings, surrogates and code points beyond U+10FFFF.
bool may_follow(std::uint8_t lead, std::uint8_t second) {
  switch (lead) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second < 0xA0;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second < 0x90;
    default: return true;
  }
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t length = length_from(byte(0));
  if (length == 0) return {};
  std::uint32_t point = length == 1 ? byte(0) : byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; i < std::min(length, text.size()); ++i) {
    if ((byte(i) & 0xC0u) != 0x80u || (i == 1 && !may_follow(byte(0), byte(1)))) return {};
    point = (point << 6) | (byte(i) & 0x3Fu);
  }
  if (length > text.size()) return {.cut_off = true};
  return {.bytes = length, .code_point = point};
}

CodePoints decode_utf8(std::string_view text) {
  CodePoints decoded;
  while (decoded.bytes < text.size()) {
    const Utf8Character character = first_character(text.substr(decoded.bytes));
    if (character.bytes == 0) break;
    decoded.points.push_back(character.code_point);
    decoded.bytes += character.bytes;
  }
  return decoded;
}

std::string encode_utf8(const std::vector<std::uint32_t>& code_points) {
  std::string text;
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(static_cast<std::uint8_t>(byte))); };
  for (const std::uint32_t point : code_points) {
    const int continuations = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr std::uint32_t leads[] = {0x00, 0xC0, 0xE0, 0xF0};
    put(leads[continuations] | (point >> (6 * continuations)));
    for (int k = continuations - 1; k >= 0; --k) put(0x80u | ((point >> (6 * k)) & 0x3Fu));
  }
  return text;
}

}  // namespace lockstep
