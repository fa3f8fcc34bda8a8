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

/// How a trial has ended. Pruned: it was cut off; diverged: it met numbers that are not finite; failed: it could not be
/// run.
enum class TrialOutcome { reached, complete, pruned, diverged, failed };
inline constexpr std::string_view outcome_names[] = {"reached", "complete", "pruned", "diverged", "failed"};
inline bool is_feasible(TrialOutcome outcome) { return outcome < TrialOutcome::diverged; }

/// A trial whose outcome is known for good.
struct TrialRecord {
  TrialId id;
  DeckSettings settings;  ///< those of the search
  std::int64_t seed = 0;
  TrialOutcome outcome = TrialOutcome::complete;
  std::string message;  ///< for diverged and failed trials
  TrialCurve curve;
  // The members below may differ when a study is run again.
  std::int64_t steps_run = 0;  ///< steps that were done, including those after the point at which it was cut off
  double seconds = 0;          ///< time in the process that ended it
  int slot = 0;

  /// Steps that count: up to the last evaluation or, for a trial that has diverged or failed after it, all of them.
  std::int64_t steps() const;
};

/// The results of a study: JSON lines in a file that one process writes. Each line is complete, except the last one if
/// the writer was killed; the next process that opens the file cuts it off. The first line identifies the study.
class Ledger {
 public:
  /// Reads the existing records; new ones are appended. If no trial has begun (the folder `trials` is empty or
  /// missing), begins a new file in place of a missing one or one of another study without records. Throws bad_deck for
  /// a file of another study, and says how that differs, and for trials without a ledger; bad_data; cannot_create.
  Ledger(const std::filesystem::path& file, const std::filesystem::path& trials, const std::string& identity);

  const std::vector<TrialRecord>& records() const { return records_; }
  /// Appends a record. It is on disk when this returns.
  void append(const TrialRecord& record);

 private:
  std::vector<TrialRecord> records_;
  std::uint64_t bytes_ = 0;  ///< bytes in the file
  std::optional<RawFile> file_;
};

/// Returns the records of a ledger. Throws missing_file, bad_data.
std::vector<TrialRecord> read_ledger(const std::filesystem::path& file);

}  // namespace lockstep
