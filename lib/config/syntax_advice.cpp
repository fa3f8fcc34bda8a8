// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/syntax_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Whether a line is `word:value`, which YAML takes for one word.
bool lacks_space(std::string_view line) {
  const auto begin = line.find_first_not_of(" -");
  if (begin == std::string_view::npos) return false;
  auto end = begin;
  while (end < line.size() && is_of_word(line[end])) ++end;
  return end > begin && end + 1 < line.size() && line[end] == ':' &&
         (is_of_word(line[end + 1]) || line[end + 1] == '[' || line[end + 1] == '{');
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

struct Bracket {
  char sign;
  std::size_t line, column;  ///< from 1
};

/// The brackets that are open behind `count` lines and `columns` of the next one. Quoted text and comments have none.
std::vector<Bracket> open_brackets(const std::vector<std::string_view>& lines, std::size_t count, std::size_t columns) {
  std::vector<Bracket> open;
  char quote = 0;
  for (std::size_t i = 0; i < lines.size() && i <= count; ++i) {
    const std::string_view line = i < count ? lines[i] : lines[i].substr(0, columns);
    for (std::size_t j = 0; j < line.size(); ++j) {
      const char c = line[j];
      const bool begins_word = j == 0 || !is_of_word(line[j - 1]);
      if (quote != 0) quote = c == quote ? 0 : quote;
      else if ((c == '"' || c == '\'') && begins_word) quote = c;
      else if (c == '#' && (j == 0 || line[j - 1] == ' ')) break;
      else if (c == '{' || c == '[') open.push_back({c, i + 1, j + 1});
      else if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
    }
  }
  return open;
}

}  // namespace

std::string syntax_advice(const std::string& text, const DeckPosition& where) {
  const std::vector<std::string_view> lines = lines_of(text);
  const auto found = static_cast<std::size_t>(where.line - 1);  // may be behind the last line
  const std::vector<Bracket> open = open_brackets(lines, found, static_cast<std::size_t>(where.column - 1));
  if (!open.empty())
    return fmt::format("is the {} of line {}, column {} closed?", open.back().sign, open.back().line,
                       open.back().column);
  for (std::size_t i = std::min(found + 1, lines.size()); i > 0 && i + 1 > found; --i)
    if (lacks_space(lines[i - 1])) return fmt::format("is a space missing behind the colon in line {}?", i);
  return "mend the syntax";
}

}  // namespace lockstep
