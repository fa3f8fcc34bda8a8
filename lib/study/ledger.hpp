// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/raw_file.hpp"
#include "study/pruner.hpp"
#include "study/trial_plan.hpp"

namespace lockstep {

/// How a trial has ended. Pruned: it was cut off; diverged: numbers were not finite; failed: it could not be run.
enum class TrialOutcome { reached, complete, pruned, diverged, failed };
inline constexpr std::string_view outcome_names[] = {"reached", "complete", "pruned", "diverged", "failed"};
inline bool is_feasible(TrialOutcome outcome) { return outcome < TrialOutcome::diverged; }

/// A trial that counts.
struct TrialRecord {
  TrialId id;
  DeckSettings settings;  ///< of the search
  std::int64_t seed = 0;
  TrialOutcome outcome = TrialOutcome::complete;
  std::string message;  ///< of diverged and failed ones
  TrialCurve curve;
  // What differs when a study is run again.
  std::int64_t steps_run = 0;  ///< with those after the point at which it was cut off
  double seconds = 0;          ///< of the process that ended it
  int slot = 0;

  std::int64_t steps() const { return curve.reports.empty() ? 0 : curve.reports.back().step; }
};

/// The results of a study: JSON lines in one file, which one process writes, each line whole or, where that was killed,
/// cut off when the next one opens the file. The first line says of which study they are.
class Ledger {
 public:
  /// Reads what is there, and goes on after it. Where no trial has begun, which is when the folder `trials` is empty or
  /// missing, begins anew what is not there or another study's. Throws bad_deck for the file of another study (and says
  /// in what that differs), and for trials of which no ledger tells whose they are; bad_data; cannot_create.
  Ledger(const std::filesystem::path& file, const std::filesystem::path& trials, const std::string& identity);

  const std::vector<TrialRecord>& records() const { return records_; }
  /// On disk when it returns.
  void append(const TrialRecord& record);

 private:
  std::vector<TrialRecord> records_;
  std::uint64_t bytes_ = 0;  ///< in the file
  std::optional<RawFile> file_;
};

/// The records of a ledger. Throws missing_file, bad_data.
std::vector<TrialRecord> read_ledger(const std::filesystem::path& file);

}  // namespace lockstep
