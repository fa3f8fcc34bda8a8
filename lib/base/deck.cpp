// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/deck.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep {
namespace {

constexpr int max_depth = 64;
constexpr std::size_t max_nodes = 100000;
constexpr std::uintmax_t max_bytes = 4u << 20;

DeckPosition position_of(const YAML::Mark& mark, const std::string& file) {
  if (mark.is_null()) return {file, 1, 1};
  return {file, mark.line + 1, mark.column + 1};
}

std::string child_path(const std::string& parent, const std::string& key) {
  return parent.empty() ? key : parent + "." + key;
}

void repath(DeckNode& node, const std::string& path) {
  node.path = path;
  for (std::size_t i = 0; i < node.items.size(); ++i) repath(node.items[i], child_path(path, std::to_string(i)));
  for (auto& entry : node.entries) repath(entry.value, child_path(path, entry.key));
}

/// Copies yaml-cpp's tree into ours, and checks on the way what yaml-cpp lets pass.
class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  DeckNode convert(const YAML::Node& from, const std::string& path, int depth) {
    DeckNode node;
    node.path = path;
    node.position = position_of(from.Mark(), file_);
    if (depth > max_depth)
      throw DeckError(node.position, "",
                      fmt::format("nested more than {} levels deep (no deck "
                                  "needs that); check the indentation",
                                  max_depth));
    if (++nodes_ > max_nodes)
      throw DeckError(node.position, "",
                      fmt::format("more than {} values, aliases counted as "
                                  "often as they are used; write a smaller deck",
                                  max_nodes));
    switch (from.Type()) {
      case YAML::NodeType::Scalar:
        node.kind = DeckNode::Kind::scalar;
        node.text = from.Scalar();
        node.quoted = from.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        node.kind = DeckNode::Kind::sequence;
        for (std::size_t i = 0; i < from.size(); ++i)
          node.items.push_back(convert(from[i], child_path(path, std::to_string(i)), depth + 1));
        break;
      case YAML::NodeType::Map:
        node.kind = DeckNode::Kind::mapping;
        for (const auto& pair : from) add_entry(node, pair.first, pair.second, depth);
        break;
      default: break;
    }
    return node;
  }

 private:
  void add_entry(DeckNode& node, const YAML::Node& key, const YAML::Node& value, int depth) {
    const DeckPosition where = position_of(key.Mark(), file_);
    if (!key.IsScalar()) throw DeckError(where, node.path, "a key is not plain text; write key: value");
    const std::string& name = key.Scalar();
    const std::string path = child_path(node.path, name);
    const auto same = std::find_if(node.entries.begin(), node.entries.end(),
                                   [&](const auto& entry) { return entry.key == name; });
    if (same != node.entries.end())
      throw DeckError(where, path,
                      fmt::format("repeated key (first given at line {}, column {}); "
                                  "keep one of them",
                                  same->position.line, same->position.column));
    node.entries.push_back({name, where, convert(value, path, depth + 1)});
  }

  const std::string& file_;
  std::size_t nodes_ = 0;
};

/// yaml-cpp reports an indenting tab in many ways or not at all, so it is looked for first.
/// Block scalars (| and >) do not occur in decks, so every leading tab is a mistake.
void refuse_indenting_tabs(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && line[first] == '\t' && line.find_first_not_of(" \t\r") != std::string::npos)
      throw DeckError({file, number, static_cast<int>(first) + 1}, "",
                      "a tab is used for indentation (YAML allows only spaces); replace it by spaces");
  }
}

DeckNode parse_text(const std::string& text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw DeckError(position_of(documents[1].Mark(), file), "",
                      "a second YAML document begins (a deck is one document); remove the '---'");
    return documents.empty() ? DeckNode{.position = {file, 1, 1}} : Converter(file).convert(documents[0], "", 0);
  } catch (const YAML::Exception& error) {
    throw DeckError(position_of(error.mark, file), "", fmt::format("not valid YAML ({}); mend the syntax", error.msg));
  }
}

DeckNode* find_or_make(DeckNode& node, const std::string& key, const DeckPosition& where) {
  if (node.kind == DeckNode::Kind::sequence) {
    const bool number = !key.empty() && key.size() < 6 &&
                        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number || std::stoul(key) >= node.items.size())
      throw DeckError(
          where, child_path(node.path, key),
          fmt::format("no such list entry (the list has {}, counted from 0); use one of these", node.items.size()));
    return &node.items[std::stoul(key)];
  }
  if (node.kind == DeckNode::Kind::scalar)
    throw DeckError(where, child_path(node.path, key),
                    fmt::format("'{}' is a value, not a mapping; give it without '.{}'", node.path, key));
  node.kind = DeckNode::Kind::mapping;
  for (auto& entry : node.entries)
    if (entry.key == key) return &entry.value;
  node.entries.push_back({key, where, DeckNode{}});
  DeckNode& made = node.entries.back().value;
  made.position = where;
  made.path = child_path(node.path, key);
  return &made;
}

}  // namespace

const DeckNode* DeckNode::find(std::string_view key) const {
  for (const auto& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

DeckError::DeckError(const DeckPosition& where, std::string_view path, std::string_view problem)
    : Error(ExitStatus::bad_deck,
            fmt::format("{}{}{}{}",
                        where.file.empty() ? "" : fmt::format("{}:{}:{}: ", where.file, where.line, where.column), path,
                        path.empty() ? "" : ": ", problem)) {}

DeckError located(const DeckNode& deck, const KeyError& error) {
  const DeckNode* node = &deck;
  std::istringstream keys(error.path());
  for (std::string key; std::getline(keys, key, '.');) {
    const DeckNode* child = node->find(key);
    if (child == nullptr) break;
    node = child;
  }
  return DeckError(node->position, error.path(), error.problem());
}

namespace {

void refuse_large(std::uintmax_t bytes, const std::string& file) {
  if (bytes > max_bytes)
    throw DeckError({file, 1, 1}, "",
                    fmt::format("larger than {} MiB (no deck is); is this the right file?", max_bytes >> 20));
}

}  // namespace

std::string read_deck_file(const std::string& path) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  if (!code) refuse_large(bytes, path);
  return read_text_file(path);
}

DeckNode parse_deck(const std::string& text, const std::string& file) {
  refuse_large(text.size(), file);
  if (const auto zero = text.find('\0'); zero != std::string::npos)
    throw DeckError({file, 1, 1}, "", "holds a zero byte (a deck is text); is this the right file?");
  refuse_indenting_tabs(text, file);
  DeckNode deck = parse_text(text, file);
  if (deck.kind != DeckNode::Kind::mapping)
    throw DeckError(deck.position, "",
                    "a deck is a mapping of sections (run, data, model, …); "
                    "see docs/user/deck_reference.md");
  return deck;
}

void apply_override(DeckNode& deck, const std::string& assignment) {
  const auto equals = assignment.find('=');
  validate(equals != std::string::npos && equals > 0, ExitStatus::bad_usage,
           "'{}' is not an override (no '='); write key.path=value", assignment);
  const std::string path = assignment.substr(0, equals);
  validate(path.front() != '.' && path.back() != '.' && path.find("..") == std::string::npos, ExitStatus::bad_usage,
           "'{}' is not an override (a key in its path is empty); write key.path=value", assignment);
  const DeckPosition where{"command line '" + assignment + "'", 1, 1};
  DeckNode* node = &deck;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) node = find_or_make(*node, key, where);
  DeckNode value = parse_text(assignment.substr(equals + 1), where.file);
  value.position.column += static_cast<int>(equals) + 1;
  repath(value, path);
  *node = std::move(value);
}

std::string read_text_file(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  validate(status.type() != std::filesystem::file_type::not_found, ExitStatus::missing_file,
           "{}: no such file; check the path (relative paths start at the working directory)", path);
  validate(status.type() != std::filesystem::file_type::directory, ExitStatus::missing_file,
           "{}: is a folder, not a file; name a file in it", path);
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  validate(in.is_open() && !in.bad(), ExitStatus::io_error, "{}: cannot be read ({}); check its permissions", path,
           std::strerror(errno));
  return text;
}

}  // namespace lockstep
