// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text.hpp"

#include <fnmatch.h>

#include <fmt/format.h>

#include <sstream>

namespace lockstep {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80; }

std::string without_indent(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? line : line.substr(first);
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

}  // namespace lockstep
