// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// A key whose value differs between the deck of a checkpoint and the deck of a run that goes on from it.
struct DeckChange {
  /// What the change does to the run that goes on. `training`: a step computes something else; `operation`: the run
  /// differs in its length, its place or the way it is run; `none`: nothing, as the key only matters at step 0.
  enum class Effect { training, operation, none };

  std::string key;      ///< "optimizer.learning_rate"
  std::string was, is;  ///< values in the two decks; "not set" for a deck without the key
  Effect effect = Effect::training;
};

/// Returns the changes from resolved deck `was` to resolved deck `is`: keys of `is` in its order, then keys that only
/// `was` has. Leaves out run.output_dir, run.resume and run.overwrite, which say where a run lies and how it begins.
/// Returns none if a deck cannot be read (as one of another version).
std::vector<DeckChange> changes_between(const std::string& was, const std::string& is);
/// Returns the changes from the deck among a checkpoint's `texts` to the resolved `deck`; none if `texts` has no deck.
std::vector<DeckChange> changes_since(const std::map<std::string, std::string>& texts, const std::string& deck);

}  // namespace lockstep
