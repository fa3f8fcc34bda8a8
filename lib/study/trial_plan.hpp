// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "run/deck/run_config.hpp"
#include "study/halton.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// Keys of a deck with what they are set to.
using DeckSettings = std::vector<std::pair<std::string, std::string>>;

/// One of the study's groups of trials, each of which is searched for by itself: those of a batch.
struct TrialGroup {
  std::string name;  ///< "batch 64", "optimizer.momentum 0.9"
  DeckSettings settings;
  std::int64_t batch = 0;
  std::int64_t budget = 0;  ///< steps
};

/// Number `index` of the trials of a group, from 0 on.
struct TrialId {
  std::size_t group = 0;
  std::int64_t index = 0;
  bool operator==(const TrialId&) const = default;
};

/// Which trials there are: what each has in its deck is a function of the study and of its numbers.
class TrialPlan {
 public:
  /// `base`: text of the base deck. Throws Error(bad_deck), also for a key that no deck has; settings of single trials
  /// are theirs.
  TrialPlan(const StudyConfig& study, std::string base);

  const StudyConfig& study() const { return study_; }
  /// Text of the base deck.
  const std::string& base() const { return base_; }
  const std::vector<TrialGroup>& groups() const { return groups_; }
  /// Where in [0, 1) the values lie on their scales.
  std::vector<double> places(const TrialId& id) const;
  DeckSettings settings(const TrialId& id) const;
  /// That of the base deck, and those after it. Branches begin one after it: their order of the examples is not the
  /// one that the checkpoint's run has had.
  std::int64_t seed(const TrialId& id) const {
    return base_seed_ + (study_.branch_from.present ? 1 : 0) + id.index % study_.seeds;
  }
  /// The whole deck of a trial.
  RunConfig deck(const TrialId& id) const;
  /// The deck of a trial without settings of a group, or of its own.
  RunConfig base_deck() const { return deck_with({.budget = groups_.front().budget}, {}, {}); }
  std::filesystem::path folder(const TrialId& id) const;
  /// All that decides on results, as text; the rest may change when a study goes on.
  std::string identity() const;

 private:
  DeckSettings settings_at(const std::vector<double>& places, const TrialGroup& group) const;
  void check_space(const TrialGroup& group) const;
  RunConfig deck_with(const TrialGroup& group, const DeckSettings& settings, const TrialId& id) const;
  void add_groups();
  /// The batch and the budget of a group.
  void set_budget(std::size_t number);

  StudyConfig study_;
  std::string base_;
  std::int64_t base_seed_ = 0;
  std::string base_deck_;  ///< resolved
  std::vector<TrialGroup> groups_;
  std::vector<HaltonSequence> sequences_;  ///< of each group
};

}  // namespace lockstep
