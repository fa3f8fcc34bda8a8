// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/fields_hints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "config/reading.hpp"

namespace lockstep {
namespace {

/// Shortens a path by the section that contains it: "optimizer.learning_rate" is "learning_rate" in the section
/// optimizer.
std::string_view seen_from(std::string_view section, std::string_view path) {
  const bool inside = !section.empty() && path.starts_with(section) && path.substr(section.size()).starts_with('.');
  return inside ? path.substr(section.size() + 1) : path;
}

nlohmann::json schema_of(Config& config) { return nlohmann::json::parse(json_schema(config, "")); }

/// Returns the keys of an alternative, from its JSON Schema.
std::vector<std::string> keys_of(const Alternative& alternative) {
  std::vector<std::string> keys;
  const nlohmann::json schema = schema_of(*alternative.make());
  if (const auto properties = schema.find("properties"); properties != schema.end())
    for (const auto& [key, value] : properties->items()) keys.push_back(key);
  return keys;
}

/// Whether a section of a JSON Schema has a key, always or in one of its alternatives.
bool section_has_key(const nlohmann::json& section, const std::string& name) {
  if (const auto keys = section.find("properties"); keys != section.end() && keys->contains(name)) return true;
  for (const char* several : {"anyOf", "allOf"})
    if (const auto parts = section.find(several); parts != section.end())
      if (std::ranges::any_of(
              *parts, [&](const nlohmann::json& part) { return section_has_key(part.value("then", part), name); }))
        return true;
  return false;
}

bool has_key(const Alternative& alternative, std::string_view key) {
  const std::vector<std::string> keys = keys_of(alternative);
  return std::ranges::find(keys, key) != keys.end();
}

/// Formats a node in YAML's flow style.
std::string inline_text(const DeckNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case DeckNode::Kind::null: return "";
    case DeckNode::Kind::scalar: return node.quoted ? fmt::format("\"{}\"", node.text) : node.text;
    case DeckNode::Kind::sequence:
      for (const DeckNode& item : node.items) parts.push_back(inline_text(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case DeckNode::Kind::mapping:
      for (const DeckNode::Entry& entry : node.entries)
        parts.push_back(fmt::format("{}: {}", entry.key, inline_text(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return "";
}

/// Formats the options of the entry's type: all its keys except `without`, name and from.
std::string options_text(const DeckNode& item, std::string_view without) {
  DeckNode options{.kind = DeckNode::Kind::mapping};
  for (const DeckNode::Entry& entry : item.entries)
    if (entry.key != without && entry.key != "name" && entry.key != "from") options.entries.push_back(entry);
  return inline_text(options);
}

/// Returns the error about an option `key` next to the type of its list entry, or a type that is given as a value; else
/// empty.
std::string misplaced_option(const DeckNode& item, const DeckNode::Entry& key,
                             std::span<const Alternative> alternatives) {
  if (key.key == "type" && key.value.kind == DeckNode::Kind::scalar && find(alternatives, key.value.text))
    return fmt::format("a type is written as the key of its options; write {{{}: {}}}", key.value.text,
                       options_text(item, "type"));
  for (const DeckNode::Entry& entry : item.entries) {
    if (const Alternative* type = find(alternatives, entry.key); !type || !has_key(*type, key.key)) continue;
    const std::string value = inline_text(key.value);
    if (key.position.file.starts_with(command_line))
      return fmt::format("'{}' is an option of {}; write {}.{}.{}={}", key.key, entry.key, item.path, entry.key,
                         key.key, value);
    return fmt::format("'{}' is an option of {}; indent it below its type, or write {{{}: {{{}: {}}}}}", key.key,
                       entry.key, entry.key, key.key, value);
  }
  return "";
}

/// Lists the keys that a list entry may have, if its type is known; else empty.
std::string options_beside(const DeckNode& item, std::span<const Alternative> alternatives) {
  for (const DeckNode::Entry& entry : item.entries)
    if (const Alternative* type = find(alternatives, entry.key))
      return fmt::format("only name and from can be given next to {}; its options go below it: {}", entry.key,
                         fmt::join(keys_of(*type), ", "));
  return "";
}

}  // namespace

std::string other_key(std::span<const OtherName> names, std::string_view section, std::string_view key) {
  for (const OtherName& other : names) {
    if (other.name != key || !matches_pattern(std::string(other.section), std::string(section))) continue;
    if (other.was_removed)
      return fmt::format("was removed from Lockstep ({}); {}{}", other.why,
                         other.instead.empty() ? "leave it out" : "use ", seen_from(section, other.instead));
    if (other.instead.empty()) return fmt::format("is not needed here ({}); remove it", other.why);
    return fmt::format("has another name here{}; write {}", other.why.empty() ? "" : fmt::format(" ({})", other.why),
                       seen_from(section, other.instead));
  }
  return "";
}

std::string other_word(std::span<const OtherName> names, std::string_view path, std::string_view word,
                       const std::vector<std::string>& words) {
  std::string small(word);  // names of classes, as Dense, are those of layers
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const OtherName& other : names) {
    if (other.name != small) continue;
    if (other.was_removed && other.section == path)
      return fmt::format("it was removed from Lockstep ({}); use {}", other.why, other.instead);
    if (std::ranges::find(words, other.instead) != words.end()) return fmt::format("did you mean '{}'?", other.instead);
    if (other.section == path) return fmt::format("write {}", other.instead);
  }
  return "";
}

std::string key_of_other_alternatives(std::string_view key, std::string_view chooser, std::string_view chosen,
                                      std::span<const Alternative> alternatives) {
  std::vector<std::string_view> owners;
  for (const Alternative& alternative : alternatives)
    if (has_key(alternative, key)) owners.push_back(alternative.name);
  if (owners.empty()) return "";
  return fmt::format(
      "is an option of {}: {}, but here it is {}; remove it, use one of these, or replace the whole section with "
      "{{{}: {}}}",
      chooser, fmt::join(owners, ", "), chosen, chooser, chosen);
}

std::vector<std::string> paths_of_key(Config& config, std::string_view name) {
  std::vector<std::string> paths;
  const nlohmann::json schema = schema_of(config);
  for (const auto& [section, keys] : schema.at("properties").items()) {
    if (section == name) paths.push_back(section);
    if (section_has_key(keys, std::string(name))) paths.push_back(fmt::format("{}.{}", section, name));
  }
  return paths;
}

std::string key_of_other_sections(std::string_view key, std::string_view section, Config& deck) {
  std::vector<std::string> paths = paths_of_key(deck, key);
  std::erase(paths, fmt::format("{}.{}", section, key));
  if (paths.empty()) return "";
  return fmt::format("unknown key; did you mean '{}'{}?", fmt::join(paths, "' or '"),
                     paths.front() == key ? " at the top level of the deck" : "");
}

std::string problem_of_item(const DeckNode& item, const DeckNode::Entry& key, std::span<const Alternative> alternatives,
                            std::span<const OtherName> names) {
  if (std::string problem = misplaced_option(item, key, alternatives); !problem.empty()) return problem;
  std::vector<std::string> words = names_of(alternatives);
  std::string meant = other_word(names, item.path, key.key, words);
  words.insert(words.end(), {"name", "from"});
  if (meant.empty() && nearest(key.key, words).empty()) meant = options_beside(item, alternatives);
  return fmt::format("unknown key; {}", meant.empty() ? suggestion(key.key, words) : meant);
}

std::string spelled_out_as(const DeckNode& value, std::string_view key) {
  if (value.position.file.starts_with(command_line))
    return fmt::format("write {}.{}={}", value.path, key, inline_text(value));
  const auto dot = value.path.rfind('.');
  return fmt::format("write {}: {{{}: {}}}", dot == std::string::npos ? value.path : value.path.substr(dot + 1), key,
                     inline_text(value));
}

}  // namespace lockstep
