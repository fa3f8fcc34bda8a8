// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/deck_changes.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/deck.hpp"
#include "train/run_config.hpp"

namespace lockstep {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

void append(const DeckNode& node, Values& values) {
  switch (node.kind) {
    case DeckNode::Kind::scalar: values.emplace_back(node.path, node.text); break;
    case DeckNode::Kind::null: values.emplace_back(node.path, "nothing"); break;
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

const std::string* find(const Values& values, const std::string& key) {
  const auto found = std::ranges::find(values, key, &Values::value_type::first);
  return found == values.end() ? nullptr : &found->second;
}

bool is_below(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

DeckChange::Effect effect_of(const std::string& key) {
  const auto below = [&](std::string_view section) { return is_below(key, section); };
  const auto ends = [&](std::string_view name) { return key.ends_with(name); };
  if (below("model.weights.freeze")) return DeckChange::Effect::training;
  if (below("model.weights") || ends(".initializer") || ends(".initial_std") || ends(".zero_gamma"))
    return DeckChange::Effect::none;
  for (const char* section :
       {"run", "checkpoint", "parallel", "providers", "loss_watch", "batch.micro", "model.activation_checkpointing"})
    if (below(section)) return DeckChange::Effect::operation;
  return DeckChange::Effect::training;
}

bool is_of_no_interest(const std::string& key) {
  return key == "run.output_dir" || key == "run.resume" || key == "run.overwrite";
}

/// What this version makes of a deck that another one may have resolved: with the keys and words that there are now.
std::string resolved(const std::string& deck) {
  try {
    RunConfig config = read_run_config(parse_deck(deck, ""));
    return write_config(config);
  } catch (const Error&) {
    return deck;
  }
}

}  // namespace

std::vector<DeckChange> changes_between(const std::string& was, const std::string& is) {
  Values before, after;
  try {
    append(parse_deck(resolved(was), ""), before);
    append(parse_deck(is, ""), after);
  } catch (const Error&) {
    return {};
  }
  std::vector<DeckChange> changes;
  const auto add = [&](const std::string& key, const std::string& old_value, const std::string& new_value) {
    if (old_value != new_value && !is_of_no_interest(key))
      changes.push_back({key, old_value, new_value, effect_of(key)});
  };
  for (const auto& [key, value] : after) {
    const std::string* old_value = find(before, key);
    add(key, old_value ? *old_value : "nothing", value);
  }
  for (const auto& [key, value] : before)
    if (!find(after, key)) add(key, value, "nothing");
  return changes;
}

}  // namespace lockstep
