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

/// True if the line is `word:value`, which YAML reads as one word.
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
  std::size_t line, column;  ///< counted from 1
};

/// Tracks the brackets that are open after the lines read so far; those in quoted text and comments do not count.
class Brackets {
 public:
  void read(std::string_view line) {
    ++lines_;
    for (std::size_t j = 0; j < line.size(); ++j) {
      const char c = line[j];
      const bool begins_word = j == 0 || !is_of_word(line[j - 1]);
      if (quote_ != 0) quote_ = c == quote_ ? 0 : quote_;
      else if ((c == '"' || c == '\'') && begins_word) quote_ = c;
      else if (c == '#' && (j == 0 || line[j - 1] == ' ')) break;
      else if (c == '{' || c == '[') open_.push_back({c, lines_, j + 1});
      else if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
    }
  }

  const std::vector<Bracket>& open() const { return open_; }
  bool are_closed() const { return open_.empty() && quote_ == 0; }

 private:
  std::vector<Bracket> open_;
  char quote_ = 0;
  std::size_t lines_ = 0;
};

/// Returns the brackets that are open after the first `count` lines and `columns` columns of the next one.
std::vector<Bracket> open_brackets(const std::vector<std::string_view>& lines, std::size_t count, std::size_t columns) {
  Brackets brackets;
  for (std::size_t i = 0; i < lines.size() && i <= count; ++i)
    brackets.read(i < count ? lines[i] : lines[i].substr(0, columns));
  return brackets.open();
}

/// Returns the line without its comment and trailing spaces.
std::string_view content_of(std::string_view line) {
  line = line.substr(0, line.starts_with('#') ? 0 : line.find(" #"));
  return line.substr(0, line.find_last_not_of(" \r") + 1);
}

/// Describes the first of the lines whose indentation matches no level of the entries above it; empty if there is none.
std::string uneven_indentation(const std::vector<std::string_view>& lines, std::size_t count) {
  std::vector<std::size_t> levels;  // columns where entries begin, counted from 0
  Brackets brackets;
  bool opens_level = false;  // the previous entry has nothing after its colon or dash
  for (std::size_t i = 0; i < std::min(count, lines.size()); ++i) {
    const std::string_view line = content_of(lines[i]);
    const bool is_inside = !brackets.are_closed();
    brackets.read(lines[i]);
    std::size_t begin = line.find_first_not_of(' ');
    if (is_inside || begin == std::string_view::npos) continue;
    const auto is_item = [&] { return line.substr(begin).starts_with("- ") || line.substr(begin) == "-"; };
    if (!is_item() && !line.ends_with(':') && line.find(": ") == std::string_view::npos) continue;
    std::size_t beside = 0;
    bool is_beside = !levels.empty() && begin > levels.back() && !opens_level;
    if (is_beside) beside = levels.back();
    for (; !levels.empty() && levels.back() > begin; levels.pop_back()) is_beside = true, beside = levels.back();
    const bool is_known = !levels.empty() && levels.back() == begin;
    if (is_beside && !is_known)
      return fmt::format("line {} begins in column {}, but the entries above it in column {}; indent them equally",
                         i + 1, begin + 1, beside + 1);
    if (!is_known) levels.push_back(begin);
    while (is_item()) {
      begin = line.find_first_not_of(' ', begin + 1);
      if (begin == std::string_view::npos) break;
      levels.push_back(begin);
    }
    opens_level = line.ends_with(':') || line.ends_with('-');
  }
  return "";
}

}  // namespace

namespace {

/// Describes a mistake at the parser's position that the parser itself does not explain; empty if none is recognized.
std::string misread_value(std::string_view line, std::size_t at) {
  const std::size_t first = line.find(": "),
                    second = first == std::string_view::npos ? first : line.find(": ", first + 2);
  if (at < line.size() && line[at] == ':' && second == at)
    return fmt::format("two keys are on one line; write {}: {{{}}}, or put the second on its own line",
                       line.substr(line.find_first_not_of(" -"), first - line.find_first_not_of(" -")),
                       content_of(line.substr(first + 2)));
  return "";
}

}  // namespace

std::string syntax_advice(const std::string& text, const DeckPosition& where) {
  const std::vector<std::string_view> lines = lines_of(text);
  const auto found = static_cast<std::size_t>(where.line - 1);  // 0-based; may be after the last line
  const bool is_there = found < lines.size();
  const auto at = static_cast<std::size_t>(where.column - 1);
  if (is_there && at < lines[found].size() && lines[found][at] == '*')
    return "put text that begins with * in quotation marks (YAML takes it for an alias)";
  const std::vector<Bracket> open = open_brackets(lines, found, at);
  if (!open.empty())
    return fmt::format("is the {} at line {}, column {} closed? Is a comma missing in it?", open.back().sign,
                       open.back().line, open.back().column);
  for (std::size_t i = std::min(found + 1, lines.size()); i > 0 && i + 1 > found; --i)
    if (lacks_space(lines[i - 1])) return fmt::format("is a space missing after the colon in line {}?", i);
  if (is_there)
    if (std::string misread = misread_value(lines[found], at); !misread.empty()) return misread;
  const std::string uneven = uneven_indentation(lines, found + 1);
  return uneven.empty() ? "correct the syntax" : uneven;
}

}  // namespace lockstep
