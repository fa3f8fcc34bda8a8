// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/capabilities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "base/text.hpp"
#include "config/reading.hpp"

namespace lockstep {
namespace {

/// How messages and the page of combinations speak of a capability: a name that follows "needs", and a sentence.
struct CapabilityText {
  Capability capability;
  std::string_view name, meaning;
};

constexpr auto capability_texts = std::to_array<CapabilityText>({
    {Capability::whole_parameters, "whole parameters on every rank",
     "Each rank holds all parameters, and may change all of them."},
    {Capability::common_steps, "steps that all ranks take together",
     "A step has one loss, one gradient and one update, in which all ranks take part."},
    {Capability::common_parameters, "the same parameters on all ranks",
     "All ranks hold the same parameters after each update."},
    {Capability::newest_parameters, "gradients by the newest parameters",
     "No gradient is computed by parameters that others have changed since."},
    {Capability::own_pass_times, "passes that wait for no other rank",
     "The time of a rank's forward and backward pass is its own."},
    {Capability::host_memory, "parameters in host memory", "The build computes in the memory of the host."},
    {Capability::fixed_ranks, "a number of ranks that stays the same", "A run ends with the ranks it has begun with."},
    {Capability::run_loop, "the loop of lockstep train",
     "The program itself chooses the examples, steps, synchronizes, and writes checkpoints."},
    {Capability::exact_sums, "exact sums of gradients", "What ranks add up is their gradients, to rounding."},
    {Capability::free_order, "a free order of sums",
     "The way of training may choose which parts of a batch it adds up, and in which order."},
    {Capability::same_bits, "the same bits on any number of ranks",
     "The parameters after a step do not depend on the number of ranks."},
    {Capability::divisible_sums, "sums that can be divided among ranks",
     "A sum of gradients can leave each rank its part alone."},
    {Capability::one_algorithm, "one algorithm for sums of all sizes", "All buckets are summed in the same way."},
    {Capability::sums_between_layers, "sums that advance between layers",
     "The thread that computes also advances the sums of gradients."},
    {Capability::node_sums, "sums in the memory of nodes",
     "The ranks of a node sum in its shared memory before anything travels between nodes."},
    {Capability::one_sender, "one rank of each node that sends",
     "One rank of a node takes part in sums between nodes."},
    {Capability::fp32_wire, "gradients that travel in fp32", "Messages carry gradients in the type of the parameters."},
    {Capability::fp32_additions, "additions in fp32", "Gradients are added in fp32, in whatever type they travel."},
    {Capability::sums_of_gradients, "sums of gradients alone", "Nothing but gradients is summed over ranks in a step."},
    {Capability::equal_parts, "equal parts of a batch", "A batch can be cut into parts of the same size."},
    {Capability::one_share, "one share of each batch for each rank",
     "Each rank computes one share of a batch, and all shares are as large as each other, to one example."},
    {Capability::whole_batches, "batches that need no fixed parts",
     "The number of examples in a batch may change, and neighbours in a batch may be computed together."},
    {Capability::common_statistics, "statistics of batch_norm that neighbouring ranks share",
     "Neighbouring ranks compute mean and variance over the examples of all of them."},
    {Capability::other_order, "an order of examples that can change", "Examples can come in another order."},
    {Capability::equal_weights, "targets of equal weight", "All targets count alike in the loss."},
    {Capability::single_classes, "one class for each target", "The target of an example is one class, not a mixture."},
    {Capability::joint_synchronizations, "synchronizations of all groups at once",
     "All groups of ranks synchronize after the same step."},
    {Capability::whole_synchronizations, "synchronizations of all parameters at once",
     "A synchronization is of all parameters, and ends before the next step."},
    {Capability::unlike_groups, "groups that differ when all synchronize",
     "Groups of a node have parameters of their own until all groups synchronize."},
    {Capability::several_groups, "several groups on a node", "The ranks of a node are more than one group."},
    {Capability::own_groups, "groups that parallel.local sets", "Nothing else sets which ranks step together."},
    {Capability::workers_of_one_rank, "workers of one rank", "Each worker is a single rank."},
    {Capability::single_steps, "gradients of single steps",
     "A worker hands in the gradient of one step, not what several steps have changed."},
    {Capability::some_states, "an optimizer with a state", "The optimizer keeps numbers from step to step."},
    {Capability::states_in_memory, "the optimizer's state in memory",
     "The state is in the memory that computes, where it can be read at any time."},
    {Capability::divisible_states, "an optimizer whose state can be divided",
     "Any block of parameters can be updated with its block of the state alone."},
    {Capability::partial_updates, "an optimizer that can update a part alone",
     "Any part of a tensor can be updated before the rest of the gradient is known."},
    {Capability::gradient_steps, "an optimizer that steps along the gradient", "An update is linear in the gradient."},
    {Capability::whole_norm, "the norm of the whole gradient",
     "The whole gradient is known before any parameter changes."},
    {Capability::unscaled_gradients, "gradients without a loss scale",
     "Gradients are those of the loss, not of a multiple of it that overflows now and then."},
    {Capability::forgotten_gradients, "gradients that can be left out for good",
     "Nothing of a step that is left out comes back in later steps."},
});

static_assert(capability_texts.size() == static_cast<std::size_t>(Capability::forgotten_gradients) + 1 &&
                  std::ranges::is_sorted(capability_texts, {}, &CapabilityText::capability),
              "each Capability has its text, in the order of the enum");

const CapabilityText& words_for(Capability capability) {
  return capability_texts[static_cast<std::size_t>(capability)];
}

bool claims_alike(const std::vector<CapabilityUse>& a, const std::vector<CapabilityUse>& b) {
  return std::ranges::equal(a, b, {}, &CapabilityUse::capability, &CapabilityUse::capability);
}

/// Whether two keys are the same, or one is a section with the other inside.
bool are_nested(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return a == b || (!a.empty() && b.starts_with(a) && b[a.size()] == '.');
}

bool is_about_the_same(const Conflict& a, const Conflict& b) {
  const auto are = [](const Option* one, const Option* other) { return are_nested(one->key, other->key); };
  return (are(a.needing, b.needing) && are(a.taking, b.taking)) ||
         (are(a.needing, b.taking) && are(a.taking, b.needing));
}

const DeckNode* node_at(const DeckNode& deck, const std::string& path) {
  const DeckNode* node = &deck;
  std::istringstream keys(path);
  for (std::string key; node && std::getline(keys, key, '.');) node = node->find(key);
  return node;
}

/// Says where the option is, to a reader who looks at `from`, as in " (line 6, column 12)"; empty if no deck has it.
std::string place_text(const DeckNode& deck, const Option& option, const DeckPosition& from) {
  constexpr std::size_t most = 100;  // bytes of a file's name, which may be a long override
  const DeckNode* node = option.key.empty() ? nullptr : node_at(deck, option.key);
  if (!node) return "";
  const DeckPosition& at = node->position;
  if (at.file == from.file) return fmt::format(" (line {}, column {})", at.line, at.column);
  return fmt::format(" ({}:{}:{})", for_message(at.file, most), at.line, at.column);
}

std::string advice_on(const Conflict& conflict) {
  std::vector<std::string> ways;
  for (const CapabilityUse* claim : {conflict.need, conflict.taken})
    if (!claim->instead.empty() && std::ranges::find(ways, claim->instead) == ways.end())
      ways.push_back(claim->instead);
  ways.emplace_back(conflict.taking->key.empty() ? "leave it out" : "leave one out");
  return fmt::format("{}", fmt::join(ways, ", or "));
}

std::string problem_of(const Conflict& conflict, const std::string& place) {
  std::string subject = conflict.needing->value;  // the message begins with the key
  subject.erase(0, subject.find_first_not_of(": "));
  if (!subject.empty()) subject += ' ';
  return fmt::format("{}needs {} ({}), but {}{} takes that away ({}); {}", subject,
                     words_for(conflict.need->capability).name, conflict.need->why, conflict.taking->label(), place,
                     conflict.taken->why, advice_on(conflict));
}

/// `label` for a page: what a deck may contain is set as code.
std::string page_label(const Option& option) {
  return option.key.empty() ? option.label() : fmt::format("`{}`", option.label());
}

/// Lists the options that claim the capability, with their reasons.
std::string claims_text(std::span<const Option> options, std::vector<CapabilityUse> Option::* claims,
                        Capability capability) {
  std::vector<std::string> lines;
  for (const Option& option : options)
    for (const CapabilityUse& claim : option.*claims)
      if (claim.capability == capability) lines.push_back(fmt::format("{} ({})", page_label(option), claim.why));
  return fmt::format("{}", fmt::join(lines, "<br>"));
}

}  // namespace

bool Option::requires_capability(Capability capability) const {
  return std::ranges::find(needs, capability, &CapabilityUse::capability) != needs.end();
}

void add_value(std::vector<Option>& options, Option value) {
  for (Option& option : options) {
    const bool same = option.key == value.key && claims_alike(option.needs, value.needs) &&
                      claims_alike(option.takes, value.takes);
    if (!same) continue;
    if (value.is_used) option = std::move(value);
    else if (!option.is_used) option.value += ", " + value.value.substr(value.value.find_first_not_of(": "));
    return;
  }
  options.push_back(std::move(value));
}

std::optional<Conflict> conflict_between(const Option& needing, const Option& taking) {
  if (needing.key == taking.key) return std::nullopt;
  for (const CapabilityUse& need : needing.needs)
    for (const CapabilityUse& taken : taking.takes)
      if (need.capability == taken.capability) return Conflict{&needing, &need, &taking, &taken};
  return std::nullopt;
}

std::vector<Conflict> find_conflicts(std::span<const Option> options) {
  std::vector<Conflict> conflicts;
  for (const Option& needing : options)
    for (const Option& taking : options) {
      if (!needing.is_used || !taking.is_used) continue;
      const std::optional<Conflict> found = conflict_between(needing, taking);
      if (found &&
          std::ranges::none_of(conflicts, [&](const Conflict& known) { return is_about_the_same(known, *found); }))
        conflicts.push_back(*found);
    }
  return conflicts;
}

void check_options(const DeckNode& deck, std::span<const Option> options) {
  Complaints complaints;
  for (const Conflict& conflict : find_conflicts(options)) {
    const std::string& key = conflict.needing->key;
    const DeckPosition from = located(deck, KeyError(key, "")).where();
    complaints.push_back(located(deck, KeyError(key, problem_of(conflict, place_text(deck, *conflict.taking, from)))));
  }
  throw_complaints(complaints);
}

std::string combinations_page(std::span<const Option> options) {
  std::string page = "## What options need\n\n| what | needed by | taken away by |\n|---|---|---|\n";
  for (const CapabilityText& text : capability_texts)
    page += fmt::format("| **{}**. {} | {} | {} |\n", text.name, text.meaning,
                        claims_text(options, &Option::needs, text.capability),
                        claims_text(options, &Option::takes, text.capability));
  page += "\n## Option by option\n\n| option | not with |\n|---|---|\n";
  std::vector<std::string> with_all;
  for (const Option& option : options) {
    std::vector<std::string> excluded;
    for (const Option& other : options)
      if (conflict_between(option, other) || conflict_between(other, option)) excluded.push_back(page_label(other));
    if (excluded.empty()) with_all.push_back(page_label(option));
    else page += fmt::format("| {} | {} |\n", page_label(option), fmt::join(excluded, ", "));
  }
  return page + fmt::format("\nThese go with all options of the table: {}.\n", fmt::join(with_all, ", "));
}

}  // namespace lockstep
