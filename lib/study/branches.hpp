// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "study/results.hpp"

namespace lockstep {

/// Reads from the checkpoint what its next step would have had. Throws missing_file, bad_data, and KeyError for a study
/// without that batch. Collective.
void read_branching_point(StudyConfig& study, const Communicator& world);

/// What the branches of a batch have come to.
struct BranchPoint {
  double batch = 0;
  double learning_rate = 0;
  std::optional<double> value;  ///< last result, the mean of all seeds; none: one of them has diverged
};

/// Branches that differ in their batch alone: all have gone through the same number of examples.
struct BranchCurve {
  std::string name;                 ///< what else is varied; empty: nothing
  std::vector<BranchPoint> points;  ///< in the order of batches
  std::optional<double> reference;  ///< value at the checkpoint's own batch
  /// The largest batch up to which no value is worse than the reference by more than the tolerance (Merrill et al.,
  /// "Critical batch size revisited", 2025); none while it is not known.
  std::optional<double> critical_batch;
  bool is_limit = true;  ///< false: it is the largest one of the study
};

/// None where the study is not one of branches.
std::vector<BranchCurve> branch_curves(const StudyResults& results);

}  // namespace lockstep
