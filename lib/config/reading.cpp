// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/reading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <regex.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string_view kind_name(const DeckNode& node) {
  switch (node.kind) {
    case DeckNode::Kind::null: return "an empty value";
    case DeckNode::Kind::scalar: return node.quoted ? "quoted text" : "text";
    case DeckNode::Kind::sequence: return "a list";
    case DeckNode::Kind::mapping: return "a mapping";
  }
  return "";
}

enum class Parsed { number, too_large, no_number };

template <class T>
Parsed parse_number(const std::string& text, T& value) {
  const char* begin = text.data();
  // from_chars rejects a leading +, but would accept the - of "+-1".
  if (text.size() > 1 && *begin == '+' && begin[1] != '-') ++begin;
  const auto [end, code] = std::from_chars(begin, text.data() + text.size(), value);
  if (end != text.data() + text.size() || begin == end) return Parsed::no_number;
  return code == std::errc{} ? Parsed::number : Parsed::too_large;
}

/// Compares a whole number with a bound without converting it to double, which would make large neighbours equal.
bool less(std::int64_t a, double b) {
  constexpr double beyond = 9.2233720368547758e18;
  return b >= beyond || (b >= -beyond && a < static_cast<std::int64_t>(std::ceil(b)));
}
bool less(double a, std::int64_t b) {
  constexpr double beyond = 9.2233720368547758e18;
  return a < -beyond || (a < beyond && static_cast<std::int64_t>(std::floor(a)) < b);
}
bool less(double a, double b) { return a < b; }

/// `is_meant`: the text would be a valid value without its quotes.
void refuse_quotes(const DeckNode& node, bool is_meant) {
  if (node.quoted && is_meant)
    throw DeckError(node.position, node.path,
                    fmt::format("\"{}\" is text (it is in quotes); remove the quotes", node.text));
}

[[noreturn]] void out_of_range(const DeckNode& node, const Range& range) {
  throw DeckError(
      node.position, node.path,
      fmt::format("{} is out of range ({} is allowed); give a value in this range", node.text, range_text(range)));
}

template <class T>
void require_range(const DeckNode& node, T value, Range range) {
  const bool low = range.above_min ? !less(range.min, value) : less(value, range.min);
  const bool high = range.below_max ? !less(value, range.max) : less(range.max, value);
  if (low || high) out_of_range(node, range);
}

/// Matches all of `text` by POSIX: compiling std::regex took a tenth of the build time of this folder.
bool has_form(const std::string& text, std::string_view pattern) {
  constexpr std::size_t longest = 100;  // bytes; texts with a required form are short
  regex_t form;
  [[maybe_unused]] const int failure = ::regcomp(&form, fmt::format("^({})$", pattern).c_str(),
                                                 REG_EXTENDED | REG_NOSUB);
  assert(failure == 0);
  const bool matches = text.size() <= longest && text.find('\0') == std::string::npos &&
                       ::regexec(&form, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&form);
  return matches;
}

/// Explains why a folder cannot have this name and what to do; empty if it can.
std::string problem_of_folder_name(const std::string& name) {
  constexpr std::size_t longest = 255;  // bytes; limit of common file systems
  std::string_view why;
  if (name == "." || name == "..") why = "it stands for an existing folder";
  else if (name.find('/') != std::string::npos) why = "it contains a /";
  else if (name.starts_with('-')) why = "programs would take it for an option, as it begins with -";
  else if (std::ranges::any_of(name, is_control)) why = "it contains a control character";
  else if (name.size() > longest) why = "it is longer than 255 bytes";
  if (why.empty()) return "";
  return fmt::format("'{}' cannot be the name of a folder ({}); give another name (a path is given as output_dir)",
                     for_message(name, 60), why);
}

std::string text_of(const Complaints& complaints) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_complaints, complaints.size()); ++i)
    text += (i > 0 ? "\n" : "") + std::string(complaints[i].what());
  if (complaints.size() > most_complaints) text += fmt::format("\nand {} more", complaints.size() - most_complaints);
  return text;
}

}  // namespace

DeckError of_wrong_type(const DeckNode& node, std::string_view wanted, std::string_view advice) {
  const std::string given = node.kind == DeckNode::Kind::scalar ? fmt::format("'{}'", node.text)
                                                                : std::string(kind_name(node));
  // What is wanted may come with examples, which belong to the advice alone: "a duration, as 90 min".
  const std::size_t examples = wanted.find(", as ");
  const std::string write = fmt::format("write {}", examples == std::string_view::npos
                                                        ? std::string(wanted)
                                                        : "it" + std::string(wanted.substr(examples)));
  return {node.position, node.path,
          fmt::format("{} is given ({} is expected); {}", given, wanted.substr(0, examples),
                      advice.empty() ? write : advice)};
}

void wrong_type(const DeckNode& node, std::string_view wanted) { throw of_wrong_type(node, wanted); }

std::string suggestion(std::string_view word, const std::vector<std::string>& words) {
  const std::string near = nearest(word, words);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return fmt::format("known keys: {}", fmt::join(words, ", "));
}

void refuse_word(const DeckNode& node, const std::vector<std::string>& words, const std::string& advice) {
  std::string near = advice.empty() ? nearest(node.text, words) : "";
  if (const auto longer = std::ranges::find_if(words,
                                               [&](const auto& word) { return word.ends_with("_" + node.text); });
      near.empty() && longer != words.end())
    near = *longer;
  const std::string known = fmt::format("(known: {})", fmt::join(words, ", "));
  // Advice comes first because a long list of words may be cut off.
  throw DeckError(node.position, node.path,
                  !advice.empty() ? fmt::format("'{}' is unknown; {} {}", node.text, advice, known)
                  : !near.empty() ? fmt::format("'{}' is unknown; did you mean '{}'? {}", node.text, near, known)
                                  : fmt::format("'{}' is unknown {}; use one of these", node.text, known));
}

std::string replacement(const DeckNode& mapping, const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys)
    if (!mapping.path.empty() && mapping.find(std::string(key))->position.file.starts_with(command_line))
      return fmt::format(", or replace all of it on the command line: '{}={{{}: …}}'", mapping.path, key);
  return "";
}

std::string to_text(const DeckNode& node, const TextForm& form) {
  if (node.kind != DeckNode::Kind::scalar || node.text.empty()) wrong_type(node, "text");
  if (!form.pattern.empty() && !has_form(node.text, form.pattern)) wrong_type(node, form.words);
  if (form.use == TextForm::Use::any) return node.text;
  if (node.text.starts_with('~') || node.text.find('$') != std::string::npos)
    throw DeckError(node.position, node.path,
                    fmt::format("'{}' is not expanded in a deck; write the path out (on the command line, "
                                "the shell expands \"$SCRATCH/x\")",
                                node.text));
  if (const std::string problem = form.use == TextForm::Use::folder_name ? problem_of_folder_name(node.text) : "";
      !problem.empty())
    throw DeckError(node.position, node.path, problem);
  return node.text;
}

bool to_boolean(const DeckNode& node) {
  const bool is_one = node.kind == DeckNode::Kind::scalar && (node.text == "true" || node.text == "false");
  refuse_quotes(node, is_one);
  if (!is_one) wrong_type(node, "true or false");
  return node.text == "true";
}

std::int64_t to_integer(const DeckNode& node, Range range, std::string_view wanted) {
  std::int64_t value = 0;
  const Parsed parsed = parse_number(node.text, value);
  refuse_quotes(node, parsed != Parsed::no_number);
  if (node.kind != DeckNode::Kind::scalar || parsed == Parsed::no_number) wrong_type(node, wanted);
  if (parsed == Parsed::too_large) {  // for int64
    constexpr double most = 9.2e18;
    range.min = std::max(range.min, -most);
    range.max = std::min(range.max, most);
    out_of_range(node, range);
  }
  require_range(node, value, range);
  return value;
}

double to_number(const DeckNode& node, Range range) {
  double value = 0;
  const bool is_one = parse_number(node.text, value) == Parsed::number && std::isfinite(value);
  refuse_quotes(node, is_one);
  if (node.kind != DeckNode::Kind::scalar || !is_one) wrong_type(node, "a finite number");
  require_range(node, value, range);
  return value;
}

void throw_complaints(Complaints& complaints) {
  if (complaints.empty()) return;
  std::ranges::stable_sort(complaints, {},
                           [](const DeckError& error) { return std::pair(error.where().line, error.where().column); });
  if (complaints.size() == 1) throw DeckError(complaints.front());
  throw Error(ExitStatus::bad_deck, text_of(complaints));
}

DeckNode spelled_out(const DeckNode& node, std::string_view key) {
  DeckNode value = node;
  value.path = fmt::format("{}.{}", node.path, key);
  return {.kind = DeckNode::Kind::mapping,
          .entries = {{std::string(key), node.position, std::move(value)}},
          .position = node.position,
          .path = node.path};
}

std::vector<std::string> read_names(const DeckNode& node) {
  std::vector<std::string> names;
  if (node.kind == DeckNode::Kind::scalar) names.push_back(node.text);
  for (const auto& item : node.items) {
    if (item.kind != DeckNode::Kind::scalar) wrong_type(item, "a name");
    names.push_back(item.text);
  }
  if (names.empty()) wrong_type(node, "a name or a list of names");
  return names;
}

std::vector<std::string> names_of(std::span<const Alternative> alternatives) {
  std::vector<std::string> names;
  for (const Alternative& alternative : alternatives) names.emplace_back(alternative.name);
  return names;
}

const Alternative* find(std::span<const Alternative> alternatives, std::string_view name) {
  const auto found = std::ranges::find(alternatives, name, &Alternative::name);
  return found == alternatives.end() ? nullptr : &*found;
}

}  // namespace lockstep
