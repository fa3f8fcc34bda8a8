// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <sstream>

namespace lockstep {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80; }

std::string without_indent(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? line : line.substr(first);
}

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

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7F;
}

std::string for_message(std::string_view text, std::size_t most) {
  if (text.size() > most) {
    std::size_t head = most / 2, tail = text.size() - most / 2;
    while (head > 0 && continues(text[head])) --head;
    while (tail < text.size() && continues(text[tail])) ++tail;
    return for_message(text.substr(0, head), most) + "…" + for_message(text.substr(tail), most);
  }
  std::string shown;
  for (const char c : text) shown += is_control(c) ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  return shown;
}

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream of_a(a), of_b(b);
  for (;;) {
    std::string x, y;
    const bool more_a = static_cast<bool>(std::getline(of_a, x)), more_b = static_cast<bool>(std::getline(of_b, y));
    if (x != y || !more_a || !more_b)
      return {more_a ? without_indent(x) : "nothing", more_b ? without_indent(y) : "nothing"};
  }
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  for (const char* unit : {"KB", "MB", "GB"}) {
    bytes /= 1000;
    if (bytes < 1000) return fmt::format("{:.2f} {}", bytes, unit);
  }
  return fmt::format("{:.2f} TB", bytes / 1000);
}

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
