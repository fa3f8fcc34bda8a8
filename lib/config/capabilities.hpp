// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/deck.hpp"

namespace lockstep {

/// What training offers unless an option takes it away. Options exclude each other because one needs what the other
/// takes away, and for no other reason: there are no rules for pairs of options.
enum class Capability {
  // Parameters and steps.
  whole_parameters,
  common_steps,
  common_parameters,
  newest_parameters,
  own_pass_times,
  host_memory,
  fixed_ranks,
  run_loop,
  // Sums of gradients.
  exact_sums,
  free_order,
  same_bits,
  divisible_sums,
  one_algorithm,
  sums_between_layers,
  node_sums,
  one_sender,
  fp32_wire,
  fp32_additions,
  sums_of_gradients,
  // Batches.
  equal_parts,
  one_share,
  whole_batches,
  common_statistics,
  other_order,
  equal_weights,
  single_classes,
  // Groups of ranks.
  joint_synchronizations,
  whole_synchronizations,
  unlike_groups,
  several_groups,
  own_groups,
  workers_of_one_rank,
  single_steps,
  // Updates.
  some_states,
  states_in_memory,
  divisible_states,
  partial_updates,
  gradient_steps,
  whole_norm,
  unscaled_gradients,
  forgotten_gradients,
};

/// A capability that an option needs or takes away, and the reason.
struct CapabilityUse {
  Capability capability;
  std::string why;           ///< for the user, in parentheses
  std::string instead = {};  ///< what to do other than leaving one of two options out, as "use bf16"; may be empty
};

/// A deck key, or some of its values, with the capabilities that it needs and takes away.
struct Option {
  std::string key = {};    ///< path in decks; empty: it is no key, but how the program was built or is used
  std::string value = {};  ///< what follows the key in its label, as ": fp16"; empty: any value
  bool is_used = false;
  std::vector<CapabilityUse> needs = {}, takes = {};
  /// Assignments ("parallel.local=2") by which a small deck uses this option; empty: no deck can.
  std::vector<std::string> example = {};

  /// "parallel.wire: fp16"
  std::string label() const { return key + value; }
  bool requires_capability(Capability capability) const;
};

/// Adds a value of a key. Values with the same claims are one option. Its label names those values, or the one that the
/// deck uses.
void add_value(std::vector<Option>& options, Option value);

/// An option that needs what another one takes away.
struct Conflict {
  const Option* needing;
  const CapabilityUse* need;
  const Option* taking;
  const CapabilityUse* taken;
};

/// Returns why `needing` excludes `taking`, if it does, whether they are used or not. Values of one key never do.
std::optional<Conflict> conflict_between(const Option& needing, const Option& taking);
/// Returns the conflicts between options in use, at most one for two keys and the keys inside them. They point into
/// `options`.
std::vector<Conflict> find_conflicts(std::span<const Option> options);
/// Throws Error(bad_deck) for the conflicts between options in use; a DeckError if it is one. Each message names both
/// keys and their positions in the deck.
void check_options(const DeckNode& deck, std::span<const Option> options);

/// Returns the generated part of docs/user/combinations.md.
std::string combinations_page(std::span<const Option> options);

}  // namespace lockstep
