// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/deck_values.hpp"

#include <algorithm>

#include "config/deck.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {
namespace {

void append(const DeckNode& node, DeckValues& values) {
  switch (node.kind) {
    case DeckNode::Kind::scalar: values.emplace_back(node.path, node.text); break;
    case DeckNode::Kind::null: values.emplace_back(node.path, "not set"); break;
    case DeckNode::Kind::sequence: {
      const bool flat = std::ranges::all_of(node.items,
                                            [](const DeckNode& item) { return item.kind == DeckNode::Kind::scalar; });
      if (!flat) {
        for (const DeckNode& item : node.items) append(item, values);
        break;
      }
      std::string text;
      for (const DeckNode& item : node.items) text += (text.empty() ? "" : ", ") + item.text;
      values.emplace_back(node.path, "[" + text + "]");
      break;
    }
    case DeckNode::Kind::mapping:
      if (node.entries.empty()) values.emplace_back(node.path, "{}");
      for (const auto& entry : node.entries) append(entry.value, values);
      break;
  }
}

std::string resolved(const std::string& deck, const std::string& file) {
  try {
    RunConfig config = read_run_config(parse_deck(deck, file));
    return write_config(config);
  } catch (const Error&) {
    return deck;
  }
}

}  // namespace

DeckValues deck_values(const std::string& deck, const std::string& file) {
  DeckValues values;
  append(parse_deck(resolved(deck, file), file), values);
  return values;
}

const std::string* find_value(const DeckValues& values, const std::string& key) {
  const auto found = std::ranges::find(values, key, &DeckValues::value_type::first);
  return found == values.end() ? nullptr : &found->second;
}

bool is_below(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

}  // namespace lockstep
