// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A key whose value is not what it was when a checkpoint was written.
struct DeckChange {
  /// On a run that goes on from that checkpoint: `training`: what a step computes; `operation`: for how long, where and
  /// how it is run; `none`: nothing, as it only matters at step 0.
  enum class Effect { training, operation, none };

  std::string key;      ///< "optimizer.learning_rate"
  std::string was, is;  ///< "not set", where the deck has or had no such key
  Effect effect = Effect::training;
};

/// Changes between two resolved decks, in the order of the second one; without what says where a run lies and how it
/// begins (run.output_dir, run.resume, run.overwrite). A deck that cannot be read (another version's) differs in
/// nothing.
std::vector<DeckChange> changes_between(const std::string& was, const std::string& is);

}  // namespace lockstep
