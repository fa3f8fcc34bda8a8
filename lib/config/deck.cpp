// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/deck.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.hpp"
#include "base/text_file.hpp"
#include "config/deck_builder.hpp"

namespace lockstep {
namespace {

constexpr std::uintmax_t max_bytes = 1u << 20;
// Maximum lengths, in bytes, of the parts of a message: a value of a megabyte is not quoted whole.
constexpr std::size_t max_path = 160, max_problem = 600;

/// Throws DeckError at the first byte that is invalid UTF-8 or a control character.
void refuse_what_is_no_text(std::string_view text, const std::string& file, std::string_view advice) {
  DeckPosition here{file, 1, 1};
  while (!text.empty()) {
    const auto code = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0)
      throw DeckError(here, "", fmt::format("the byte 0x{:02x} is not UTF-8 (a deck is text); {}", code, advice));
    if (is_control(text[0]) && text[0] != '\n' && text[0] != '\r' && text[0] != '\t')
      throw DeckError(here, "",
                      fmt::format("the byte 0x{:02x} is a control character (a deck is text); remove it", code));
    here.line += text[0] == '\n';
    here.column = text[0] == '\n' ? 1 : here.column + 1;
    text.remove_prefix(bytes);
  }
}

/// Refuses tabs and directives before parsing: yaml-cpp reports an indenting tab in many ways or not at all, and it
/// silently skips any line that begins with %. Decks have no block scalars (| and >), so every leading tab is a
/// mistake.
void refuse_tabs_and_directives(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with('%'))
      throw DeckError({file, number, 1}, "",
                      "a line begins with % (decks have no directives); remove the % or the line");
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && line[first] == '\t' && line.find_first_not_of(" \t\r") != std::string::npos)
      throw DeckError({file, number, static_cast<int>(first) + 1}, "",
                      "a tab is used for indentation (YAML allows only spaces); replace it with spaces");
  }
}

DeckNode* find_or_make(DeckNode& node, const std::string& key, const DeckPosition& where) {
  if (node.kind == DeckNode::Kind::sequence) {
    const bool number = !key.empty() && key.size() < 6 &&
                        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number || std::stoul(key) >= node.items.size())
      throw DeckError(where, child_path(node.path, key),
                      fmt::format("no such list entry (the list has {}, counted from 0); give one of these indices",
                                  node.items.size()));
    return &node.items[std::stoul(key)];
  }
  if (node.kind == DeckNode::Kind::scalar)
    throw DeckError(where, child_path(node.path, key),
                    fmt::format("'{0}' is a value, not a mapping ('{1}' has no keys); replace the whole value: {0}=…",
                                node.path, for_message(node.text, 40)));
  node.kind = DeckNode::Kind::mapping;
  for (auto& entry : node.entries)
    if (entry.key == key) return &entry.value;
  node.entries.push_back({key, where, DeckNode{}});
  DeckNode& made = node.entries.back().value;
  made.position = where;
  made.path = child_path(node.path, key);
  return &made;
}

void refuse_large(std::uintmax_t bytes, const std::string& file) {
  if (bytes > max_bytes)
    throw DeckError(
        {file, 1, 1}, "",
        fmt::format("larger than {} MiB (no deck is that large); is this the right file?", max_bytes >> 20));
}

/// Looks for the HDF5 signature, which no text contains, at 0 and at 512, 1024, 2048, … bytes: checkpoints begin with
/// text.
bool is_hdf5(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  std::ifstream file(path, std::ios::binary);
  std::string found(signature.size(), '\0');
  for (std::streamoff at = 0; file.seekg(at).read(found.data(), static_cast<std::streamsize>(found.size()));
       at = std::max<std::streamoff>(512, 2 * at))  // the positions that the HDF5 format allows
    if (found == signature) return true;
  return false;
}

bool is_same(const DeckNode& a, const DeckNode& b) {
  const auto is_same_entry = [](const DeckNode::Entry& one, const DeckNode::Entry& other) {
    return one.key == other.key && is_same(one.value, other.value);
  };
  return a.kind == b.kind && a.text == b.text && a.quoted == b.quoted &&
         std::ranges::equal(a.items, b.items, is_same) && std::ranges::equal(a.entries, b.entries, is_same_entry);
}

/// Returns the position of a comment in a one-line YAML value: the text before it parses to the same value. npos if
/// there is none. (In a value of several lines a comment ends with its line and hides nothing of the value.)
std::size_t comment_in(const std::string& value, const DeckNode& whole, const std::string& file) {
  if (value.find('\n') != std::string::npos) return std::string::npos;
  for (std::size_t at = value.find('#'); at != std::string::npos; at = value.find('#', at + 1)) {
    try {
      if (is_same(build_deck(value.substr(0, at), file), whole)) return at;
    } catch (const DeckError&) {  // this # is within quotation marks
    }
  }
  return std::string::npos;
}

/// Converts "model.layers[0]" to "model.layers.0".
std::string with_dots(std::string path) {
  std::ranges::replace(path, '[', '.');
  std::erase(path, ']');
  return path;
}

using Json = nlohmann::ordered_json;

Json json_of(const DeckNode& node) {
  Json json;
  switch (node.kind) {
    case DeckNode::Kind::null: break;
    case DeckNode::Kind::scalar:
      // Numbers, true and false are written alike in YAML and JSON; other unquoted words are text.
      if (!node.quoted) json = Json::parse(node.text, nullptr, false);
      if (node.quoted || json.is_discarded()) json = node.text;
      break;
    case DeckNode::Kind::sequence:
      json = Json::array();
      for (const DeckNode& item : node.items) json.push_back(json_of(item));
      break;
    case DeckNode::Kind::mapping:
      json = Json::object();
      for (const auto& entry : node.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

}  // namespace

const DeckNode* DeckNode::find(std::string_view key) const {
  for (const auto& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

DeckError::DeckError(const DeckPosition& where, std::string_view path, std::string_view problem, ExitStatus status)
    : Error(status,
            fmt::format("{}{}{}{}",
                        where.file.empty() ? "" : fmt::format("{}:{}:{}: ", where.file, where.line, where.column),
                        for_message(path, max_path), path.empty() ? "" : ": ", for_message(problem, max_problem))),
      where_(where) {}

DeckError located(const DeckNode& deck, const KeyError& error) {
  const DeckNode* node = &deck;
  std::istringstream keys(error.path());
  for (std::string key; std::getline(keys, key, '.');) {
    const DeckNode* child = node->find(key);
    if (child == nullptr) break;
    node = child;
  }
  return DeckError(node->position, error.path(), error.problem(), error.status());
}

void require_file_of(const std::string& key, const std::string& file, std::string_view advice) {
  std::error_code code;
  if (std::filesystem::status(file, code).type() == std::filesystem::file_type::not_found)
    throw KeyError(key, fmt::format("{}: no such file; {}", file, advice.empty() ? advice_on_missing(file) : advice),
                   ExitStatus::missing_file);
}


std::string read_deck_file(const std::string& path) {
  std::error_code code;
  // A pipe can be read only once, so it is not tested.
  if (std::filesystem::is_regular_file(path, code) && is_hdf5(path))
    throw DeckError({path, 1, 1}, "",
                    "is an HDF5 file, not a deck; give a deck (YAML), which names a dataset in data.file and a "
                    "checkpoint in run.resume or model.weights");
  const auto bytes = std::filesystem::file_size(path, code);
  if (!code) refuse_large(bytes, path);
  return read_text_file(path);
}

DeckNode parse_deck(const std::string& text, const std::string& file) {
  refuse_large(text.size(), file);
  refuse_what_is_no_text(text, file, "save it as UTF-8");
  refuse_tabs_and_directives(text, file);
  DeckNode deck = build_deck(text, file);
  if (deck.kind != DeckNode::Kind::mapping)
    throw DeckError(deck.position, "",
                    fmt::format("{} (a deck is a mapping of sections: run, data, model, …); see "
                                "docs/user/deck_reference.md",
                                deck.kind == DeckNode::Kind::null ? "has no keys" : "is not a mapping"));
  return deck;
}


void apply_override(DeckNode& deck, const std::string& assignment) {
  const auto equals = assignment.find('=');
  validate(equals != std::string::npos, ExitStatus::bad_usage,
           "'{}' is not an override (no '='); write key.path=value, without spaces around =", assignment);
  const std::string path = assignment.substr(0, equals);
  validate(!path.empty() && path.front() != '.' && path.back() != '.' && path.find("..") == std::string::npos,
           ExitStatus::bad_usage, "'{}' is not an override (a key in its path is empty); write key.path=value",
           assignment);
  refuse_what_is_no_text(assignment, std::string(command_line),
                         "write it as UTF-8 (if a folder has such a name, change to it and give a relative path)");
  const DeckPosition where{fmt::format("{} '{}'", command_line, assignment), 1, 1};
  const std::string text = assignment.substr(equals + 1);
  DeckNode value = build_deck(text, where.file);
  value.position.column += static_cast<int>(equals) + 1;
  const std::size_t comment = comment_in(text, value, where.file);
  if (comment != std::string::npos)
    throw DeckError({where.file, 1, static_cast<int>(equals + comment) + 2}, path,
                    fmt::format("'{}' is a comment in YAML and would be lost; remove it, or quote the value for YAML "
                                "inside the quotes for the shell: \"{}='…'\"",
                                for_message(text.substr(comment), 40), path));
  set_value(deck, path, std::move(value), where);
}

void set_value(DeckNode& deck, const std::string& path, DeckNode value, const DeckPosition& where) {
  if (const std::string dotted = with_dots(path); dotted != path)
    throw DeckError(where, path, fmt::format("list entries are given after a dot, counted from 0; write {}", dotted));
  DeckNode* node = &deck;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) node = find_or_make(*node, key, where);
  repath(value, path);
  *node = std::move(value);
}

std::string deck_json(const DeckNode& deck) { return json_of(deck).dump(); }

}  // namespace lockstep
