// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "study/results.hpp"

namespace lockstep {

/// Reads from the study's checkpoint the step, the batch and the learning rate of the step that would have followed.
/// Throws missing_file, bad_data, and DeckError if the study's batches lack that batch. Collective.
void read_branching_point(StudyConfig& study, const Communicator& world);

/// Result of the branches of one batch.
struct BranchPoint {
  double batch = 0;
  double learning_rate = 0;
  std::optional<double> value;  ///< last result, as the mean over all seeds; none: a branch has diverged or is missing
  bool is_pending = false;      ///< `value` is not known yet: branches are missing, and none has diverged
};

/// Branches that differ only in their batch. All have gone through the same number of examples.
struct BranchCurve {
  std::string name;                 ///< the other settings that vary; empty: none
  std::vector<BranchPoint> points;  ///< in the order of batches
  std::optional<double> reference;  ///< value at the checkpoint's own batch
  /// The largest batch up to which no value is worse than the reference by more than the tolerance (Merrill et al.,
  /// "Critical batch size revisited", 2025); none if it is unknown.
  std::optional<double> critical_batch;
  bool is_limit = true;  ///< false: it may be larger
};

/// Returns none if the study is not one of branches.
std::vector<BranchCurve> branch_curves(const StudyResults& results);

}  // namespace lockstep
