// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/deck/run_config.hpp"
#include "study/search_space.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// Keys of a deck with the values that they are set to.
using DeckSettings = std::vector<std::pair<std::string, std::string>>;

/// A group of trials that is searched independently of others, such as the trials of a batch.
struct TrialGroup {
  std::string name;  ///< "batch 64", "optimizer.momentum 0.9"
  DeckSettings settings;
  std::int64_t batch = 0;
  std::int64_t budget = 0;  ///< steps of a trial
};

/// Trial number `index` of a group, from 0 on.
struct TrialId {
  std::size_t group = 0;
  std::int64_t index = 0;
  bool operator==(const TrialId&) const = default;
};

/// The trials of a study. The deck of each is a function of the study and of the trial's numbers.
class TrialPlan {
 public:
  /// `base`: text of the base deck. Throws Error(bad_deck), also for a key that no deck has. Bad settings of single
  /// trials are found in their decks.
  TrialPlan(const StudyConfig& study, std::string base);

  const StudyConfig& study() const { return study_; }
  /// Text of the base deck.
  const std::string& base() const { return base_; }
  const std::vector<TrialGroup>& groups() const { return groups_; }
  /// Places of the trial's values on their scales, in [0, 1).
  std::vector<double> places(const TrialId& id) const;
  DeckSettings settings(const TrialId& id) const;
  /// Seed of a trial: the base deck's and those after it. Branches begin with the one after it, so that their order of
  /// examples differs from that of the checkpoint's run.
  std::int64_t seed(const TrialId& id) const {
    return base_seed_ + (study_.branch_from.present ? 1 : 0) + id.index % study_.seeds;
  }
  /// Returns the whole deck of a trial.
  RunConfig deck(const TrialId& id) const;
  /// Returns the deck of a trial without settings of a group or of its own.
  RunConfig base_deck() const { return deck_with({.budget = groups_.front().budget}, {}, {}); }
  std::filesystem::path folder(const TrialId& id) const;
  /// The base deck's run.hang_timeout, which is that of all trials.
  std::optional<std::int64_t> hang_timeout() const { return hang_timeout_; }
  /// Returns the keys that determine a study's results, as text. Others may change when it is continued.
  std::string identity() const;

 private:
  DeckSettings settings_at(const std::vector<double>& places, const TrialGroup& group) const;
  void check_space(const TrialGroup& group) const;
  RunConfig deck_with(const TrialGroup& group, const DeckSettings& settings, const TrialId& id) const;
  void add_groups();
  /// Sets the batch and the budget of a group.
  void set_budget(std::size_t number);

  StudyConfig study_;
  std::string base_;
  std::int64_t base_seed_ = 0;
  std::optional<std::int64_t> hang_timeout_;
  std::string base_deck_;  ///< the resolved base deck
  std::vector<TrialGroup> groups_;
  std::vector<HaltonSequence> sequences_;  ///< one for each group
};

}  // namespace lockstep
