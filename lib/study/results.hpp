// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "study/ledger.hpp"
#include "study/pruner.hpp"
#include "study/study_config.hpp"
#include "study/trial_plan.hpp"

namespace lockstep {

/// Returns the better of two results of a goal's metric.
inline double better(const GoalOptions& goal, double a, double b) { return goal.metric.is_better(b, a) ? b : a; }
/// Returns the best result of a trial.
std::optional<double> best_value(const TrialCurve& curve, const GoalOptions& goal);
/// Returns the trial that has reached the goal in the fewest steps or, if none has, the one with the best result; null
/// if no trial is feasible.
const TrialRecord* best_of(const std::vector<TrialRecord>& records, std::size_t group, const GoalOptions& goal);

/// Results of a group's trials.
struct GroupResult {
  std::string name;
  std::int64_t batch = 0, budget = 0;
  std::int64_t trials = 0, feasible = 0, pruned = 0;
  std::int64_t steps_run = 0;  ///< of all trials
  std::optional<TrialRecord> best;
  std::optional<std::int64_t> steps_to_goal;
  /// The fewest steps with each seed, if points are run with several seeds: they show how much of steps_to_goal is
  /// luck.
  std::vector<std::optional<std::int64_t>> steps_by_seed;
  std::optional<std::int64_t> resolution;  ///< steps between the evaluations around steps_to_goal
  std::optional<double> value;             ///< the best result
  std::optional<double> learning_rate;     ///< learning rate of the best trial
  std::optional<double> effective_rate;    ///< learning rate × schedule.scale_rule's factor / (1 − momentum)
  std::optional<double> noise_scale;       ///< gradient noise scale of the best trial, examples
  std::vector<std::string> at_border;      ///< keys of the space for which the best point is at an end of its scale

  /// Says what is wrong if no trial is feasible, or not all members of an ensemble are; else empty.
  std::string shortcoming(const StudyConfig& study) const;
  /// For example "optimizer.nesterov true" of "batch 64, optimizer.nesterov true".
  std::string name_without_batch() const;
};

/// A study as read from its folder.
struct StudyResults {
  StudyConfig study;
  std::vector<TrialRecord> records;  ///< group by group, in the order of trials
  std::vector<GroupResult> groups;
};

/// Reads the evaluations in a run's metrics.csv as the study's goal judges them; none if there is no file. Throws
/// bad_data if a line is not one that a run writes, as does read_noise_scale.
std::vector<TrialReport> read_curve(const std::filesystem::path& metrics, const GoalOptions& goal);

/// Reads the last gradient noise scale in the file, in examples; none if it is not measured (one rank and one
/// micro-batch).
std::optional<double> read_noise_scale(const std::filesystem::path& metrics);

/// Names of the files that a report may have.
inline constexpr std::string_view report_names[] = {"measurements.csv", "study.json", "steps_to_goal.svg",
                                                    "learning_rate.svg", "branches.svg"};
/// Throws cannot_create if a study in this folder would replace a file that no study has written. Nothing is changed.
void refuse_foreign_files(const std::filesystem::path& folder);
/// Writes what `read_results` needs besides the ledger to the study's folder.
void keep_study(const std::filesystem::path& folder, const TrialPlan& plan);
/// Keeps the fingerprints of the base deck's data, as YAML. If the study `continues`, throws bad_data if they have been
/// others.
void keep_data(const std::filesystem::path& folder, const std::string& fingerprints, bool continues);
/// Throws missing_file for a folder without a study, and bad_data.
StudyResults read_results(const std::filesystem::path& folder);

}  // namespace lockstep
