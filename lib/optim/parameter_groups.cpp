// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/parameter_groups.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {

void GroupOptions::describe(Fields& fields) {
  fields.text("match", match,
              "pattern of parameter names, as `\"*/bias\"` or `\"conv1/*\"`, where `*` stands for any text; the first "
              "entry that matches a parameter applies to it",
              Presence::required);
  fields.number("weight_decay", weight_decay, not_negative,
                "weight decay of these parameters, biases and norms included (when not given: the optimizer's, except "
                "where exclude_bias_and_norm applies)");
  fields.number("learning_rate_scale", learning_rate_scale, not_negative,
                "factor of the learning rate for these parameters (0: they do not change)");
}

ParameterGroups::ParameterGroups(const ParameterLayout& layout, const std::vector<GroupOptions>& options,
                                 const GroupSettings& usual, bool exclude) {
  std::vector<bool> used(options.size());
  const auto settings_of = [&](const Parameter& parameter) {
    GroupSettings settings = usual;
    if (exclude && parameter.shape.rank() == 1) {
      settings.weight_decay = 0;
      settings.trust_ratio = false;
    }
    const auto entry = std::ranges::find_if(
        options, [&](const GroupOptions& option) { return matches_pattern(option.match, parameter.name); });
    if (entry == options.end()) return settings;
    used[static_cast<std::size_t>(entry - options.begin())] = true;
    settings.learning_rate_scale = entry->learning_rate_scale;
    settings.weight_decay = entry->weight_decay.value_or(settings.weight_decay);
    return settings;
  };
  const auto group_of = [&](const GroupSettings& settings) {
    const auto number = std::ranges::find(groups, settings) - groups.begin();
    if (number == std::ssize(groups)) groups.push_back(settings);
    return static_cast<std::int32_t>(number);
  };
  std::vector<const Parameter*> trained;
  std::vector<std::int32_t> group;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.kind != ParameterSpec::Kind::trained) continue;
    trained.push_back(&parameter);
    group.push_back(group_of(settings_of(parameter)));
  }
  for (std::size_t i = 0; i < options.size(); ++i)
    validate_key(
        used[i], "optimizer.groups",
        "'{}' matches no trained parameter, or only those that earlier entries have taken; `lockstep check` lists the "
        "names",
        options[i].match);
  validate_key(groups.size() <= most_groups, "optimizer.groups",
               "make {} groups of different settings (at most {} are allowed); give fewer", groups.size(), most_groups);
  std::int64_t number = 0;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const ElementRange& range = trained[i]->range;
    const std::int64_t before = range.first / array_block, count = array_blocks(range.first + range.count) - before;
    parameters.push_back({number, number + count, range.count, group[i]});
    number += count;
  }
  std::int64_t state = 0;  // index in the state of the owned range's first element
  for (const ElementRange& owned : layout.owned()) {
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const ElementRange& range = trained[i]->range;
      const std::int64_t begin = std::max(range.first, owned.first);
      const std::int64_t end = std::min(range.first + range.count, owned.first + owned.count);
      for (std::int64_t first = begin, next; first < end; first = next) {
        next = std::min(end, (first / array_block + 1) * array_block);
        blocks.push_back({.first = first,
                          .gradient = first,
                          .state = state + first - owned.first,
                          .count = next - first,
                          .number = parameters[i].first_block + first / array_block - range.first / array_block,
                          .group = group[i],
                          .parameter = static_cast<std::int32_t>(i)});
      }
    }
    state += owned.count;
  }
}

void ParameterGroups::stand_in(const ParameterShard& owned) {
  for (ParameterBlock& block : blocks) {
    block.gradient = owned.gradient_at(block.first);
    block.first = owned.value_at(block.first);
  }
}

}  // namespace lockstep
