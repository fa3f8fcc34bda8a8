// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/deck_changes.hpp"

#include <string_view>

#include "base/error.hpp"
#include "run/deck/deck_values.hpp"

namespace lockstep {
namespace {

DeckChange::Effect effect_of(const std::string& key, bool in_both_decks) {
  const auto below = [&](std::string_view section) { return is_below(key, section); };
  const auto ends = [&](std::string_view name) { return key.ends_with(name); };
  for (const char* key :
       {"model.weights.freeze", "parallel.sync_batch_norm", "parallel.group_size", "parallel.virtual_replicas",
        "parallel.local", "parallel.compress", "parallel.asynchronous", "parallel.backup", "parallel.servers"})
    if (below(key) && !ends(".record")) return DeckChange::Effect::training;
  if (below("model.weights") || below("run.branch_from") || ends(".initializer") || ends("initial_std") ||
      ends(".zero_gamma"))
    return DeckChange::Effect::none;
  // A run that has scaled its loss goes on with the scale that it has come to.
  if (key == "precision.loss_scale.initial" && in_both_decks) return DeckChange::Effect::none;
  for (const char* section : {"run", "checkpoint", "parallel", "providers", "device", "loss_watch", "batch.micro",
                              "model.activation_checkpointing"})
    if (below(section)) return DeckChange::Effect::operation;
  return DeckChange::Effect::training;
}

bool is_of_no_interest(const std::string& key) {
  return key == "run.output_dir" || key == "run.resume" || key == "run.overwrite";
}

}  // namespace

std::vector<DeckChange> changes_between(const std::string& was, const std::string& is) {
  DeckValues before, after;
  try {
    before = deck_values(was, "");
    after = deck_values(is, "");
  } catch (const Error&) {
    return {};
  }
  std::vector<DeckChange> changes;
  const auto add = [&](const std::string& key, const std::string& old_value, const std::string& new_value) {
    if (old_value != new_value && !is_of_no_interest(key))
      changes.push_back({key, old_value, new_value, effect_of(key, find_value(before, key) && find_value(after, key))});
  };
  for (const auto& [key, value] : after) {
    const std::string* old_value = find_value(before, key);
    add(key, old_value ? *old_value : "not set", value);
  }
  for (const auto& [key, value] : before)
    if (!find_value(after, key)) add(key, value, "not set");
  return changes;
}

std::vector<DeckChange> changes_since(const std::map<std::string, std::string>& texts, const std::string& deck) {
  const auto before = texts.find("deck");
  return before == texts.end() ? std::vector<DeckChange>{} : changes_between(before->second, deck);
}

}  // namespace lockstep
