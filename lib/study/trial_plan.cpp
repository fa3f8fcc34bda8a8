// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "run/deck/file_kind.hpp"

namespace lockstep {
namespace {

void set(DeckNode& deck, const std::string& key, const std::string& value, const DeckPosition& where) {
  set_value(deck, key, {.kind = DeckNode::Kind::scalar, .text = value, .position = where}, where);
}

/// Removes the keys of `run` that the study sets itself.
void remove_ends(DeckNode& deck) {
  for (DeckNode::Entry& section : deck.entries)
    if (section.key == "run")
      std::erase_if(section.value.entries, [](const DeckNode::Entry& entry) {
        return entry.key == "epochs" || entry.key == "steps" || entry.key == "target" || entry.key == "overwrite";
      });
}

/// Removes what the base deck says about batches and learning rates later in its run.
void remove_course(DeckNode& deck) {
  std::erase_if(deck.entries, [](const DeckNode::Entry& section) { return section.key == "schedule"; });
  for (DeckNode::Entry& section : deck.entries)
    if (section.key == "batch")
      std::erase_if(section.value.entries, [](const DeckNode::Entry& entry) { return entry.key == "ramp"; });
}

/// Whether trials differ in their batch.
bool varies_batch(const StudyConfig& study) {
  const auto has_it = [](const std::vector<std::string>& keys) {
    return std::ranges::find(keys, "batch.global") != keys.end();
  };
  return !study.batches.empty() || has_it(study.vary_keys) || has_it(study.space.keys);
}

/// Returns where the study file names a key.
DeckPosition place_of(const StudyConfig& study, const std::string& key) {
  for (const char* section : {"space", "vary"})
    if (const DeckNode* node = study.source.find(section))
      if (const DeckNode* entry = node->find(key)) return entry->position;
  return study.source.position;
}

}  // namespace

TrialPlan::TrialPlan(const StudyConfig& study, std::string base) : study_(study), base_(std::move(base)) {
  DeckNode node = parse_deck(base_, study_.base_file());
  require_kind(node, FileKind::deck);
  const DeckNode* const run = node.find("run");
  if (!run || (!run->find("epochs") && !run->find("steps"))) set(node, "run.steps", "1", node.position);  // see `deck`
  RunConfig deck = read_run_config(std::move(node));
  with_positions(deck.source, [&] {
    validate_key(!deck.parallel.survive, "parallel.survive",
                 "is for a run of its own, but the runs of a study share their processes; leave it out");
    validate_key(deck.parallel.record().empty(),
                 deck.parallel.backup.present ? "parallel.backup.record" : "parallel.asynchronous.schedule.record",
                 "is one file, which each trial of the study would replace; leave it out");
    validate_key(deck.batch.ramp.empty() || study_.branch_from.present || !varies_batch(study_), "batch.ramp",
                 "gives all trials the same later batches, but the study compares batches; leave it out");
  });
  base_seed_ = deck.run.seed;
  hang_timeout_ = deck.run.hang_timeout;
  deck.run.name = "";
  deck.run.output_dir = "";
  base_deck_ = write_config(deck);
  add_groups();
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    sequences_.emplace_back(study_.space.keys.size(), static_cast<std::uint64_t>(study_.seed), group);
    set_budget(group);
    if (study_.branch_from.batch)
      groups_[group].settings.emplace_back("optimizer.learning_rate",
                                           fmt::format("{}", study_.branch_from.rate_of(groups_[group].batch)));
    check_space(groups_[group]);
  }
}

/// Throws if the space has no point that a deck can have, for example because of an unknown key. The points that are
/// tried do not depend on study.seed, so that it does not decide whether a study is refused.
void TrialPlan::check_space(const TrialGroup& group) const {
  constexpr std::int64_t points = 64;
  const HaltonSequence sequence(study_.space.keys.size(), 0, 0);
  std::exception_ptr problem;
  for (std::int64_t i = 0; i < points; ++i) {
    try {
      deck_with(group, settings_at(sequence.point(i), group), {});
      return;
    } catch (const Error&) {
      if (!problem) problem = std::current_exception();
    }
    if (study_.space.keys.empty()) break;
  }
  std::rethrow_exception(problem);
}

void TrialPlan::set_budget(std::size_t number) {
  TrialGroup& group = groups_[number];
  const BatchOptions batch = deck_with(group, {}, {number, 0}).batch;
  const std::optional<std::int64_t>& examples = study_.budget.examples;
  group.batch = batch.global;
  group.budget = study_.budget.steps_of(group.batch);
  with_positions(study_.source, [&] {
    validate_key(
        !examples || batch.ramp.empty(), "budget.examples",
        "is counted in steps of batch.global, but the base deck has other batches too (batch.ramp); give budget.steps");
    validate_key(group.budget > 0, "budget.examples",
                 "{} are fewer than the {} of a step (a budget is not exceeded); give at least {}, or smaller batches",
                 examples.value_or(0), group.batch, group.batch);
  });
}

/// Makes a group for each combination of what is varied.
void TrialPlan::add_groups() {
  groups_ = {TrialGroup{}};
  const auto multiply = [this](const std::string& key, const std::string& word,
                               const std::vector<std::string>& values) {
    std::vector<TrialGroup> product;
    for (const TrialGroup& group : groups_)
      for (const std::string& value : values) {
        TrialGroup& added = product.emplace_back(group);
        added.name += fmt::format("{}{} {}", added.name.empty() ? "" : ", ", word, value);
        added.settings.emplace_back(key, value);
      }
    groups_ = std::move(product);
  };
  std::vector<std::string> batches;
  for (const std::int64_t batch : study_.batches) batches.push_back(fmt::format("{}", batch));
  if (!batches.empty()) multiply("batch.global", "batch", batches);
  for (std::size_t i = 0; i < study_.vary_keys.size(); ++i)
    multiply(study_.vary_keys[i], study_.vary_keys[i], study_.vary_values[i]);
  if (groups_.front().name.empty()) groups_.front().name = "all";
}

std::vector<double> TrialPlan::places(const TrialId& id) const {
  return sequences_[id.group].point(id.index / study_.seeds);
}

DeckSettings TrialPlan::settings(const TrialId& id) const { return settings_at(places(id), groups_[id.group]); }

DeckSettings TrialPlan::settings_at(const std::vector<double>& places, const TrialGroup& group) const {
  DeckSettings settings;
  for (std::size_t i = 0; i < places.size(); ++i)
    settings.emplace_back(study_.space.keys[i], study_.space.dimensions[i].value_at(places[i], group.budget));
  return settings;
}

RunConfig TrialPlan::deck(const TrialId& id) const { return deck_with(groups_[id.group], settings(id), id); }

RunConfig TrialPlan::deck_with(const TrialGroup& group, const DeckSettings& settings, const TrialId& id) const {
  DeckNode deck = parse_deck(base_, study_.base_file());
  remove_ends(deck);
  if (study_.branch_from.present) remove_course(deck);
  const DeckPosition here = study_.source.position;
  for (const DeckSettings* some : {&group.settings, &settings})
    for (const auto& [key, value] : *some) set(deck, key, value, place_of(study_, key));
  set(deck, "run.output_dir", folder(id).string(), here);
  set(deck, "run.seed", fmt::format("{}", seed(id)), here);
  set(deck, "run.resume", "auto", here);
  set(deck, "run.overwrite", "true", here);  // replaces what a trial has left that the ledger does not know
  if (study_.branch_from.present) set(deck, "run.branch_from", study_.branch_file(), here);
  const std::int64_t budget = std::max<std::int64_t>(1, group.budget);
  set(deck, "run.steps", fmt::format("{}", budget), here);
  if (study_.evaluations) {  // at most so many, and one after the last step if that is none of them
    const std::int64_t every = (budget - 1) / *study_.evaluations + 1;
    set(deck, "run.evaluate_every", fmt::format("{} steps", every), here);
  }
  if (study_.goal.value) {
    const DeckNode* goal = study_.source.find("goal");
    const DeckPosition there = goal ? goal->position : here;
    set(deck, "run.target.metric", std::string(study_.goal.metric.text()), there);
    set(deck, "run.target.value", fmt::format("{}", *study_.goal.value), there);
  }
  if (!study_.wall_time.empty()) set(deck, "run.wall_time", study_.wall_time, here);
  return read_run_config(std::move(deck));
}

std::filesystem::path TrialPlan::folder(const TrialId& id) const {
  return std::filesystem::path(study_.folder()) / "trials" / fmt::format("{:02}-{:04}", id.group, id.index);
}

std::string TrialPlan::identity() const {
  StudyConfig same = study_;
  same.name = same.output_dir = same.wall_time = same.base = "";
  same.branch_from.checkpoint = "";
  same.trials_feasible.reset();
  return write_config(same) + "deck:\n" + base_deck_;
}

}  // namespace lockstep
