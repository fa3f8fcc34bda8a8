// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/regimes.hpp"
#include "study/results.hpp"

namespace lockstep {

/// Groups that differ in their batch alone, with what follows from them together.
struct ScalingCurve {
  std::string name;                        ///< what else is varied; empty: nothing
  std::vector<const GroupResult*> groups;  ///< in the order of batches
  std::vector<BatchSteps> steps;           ///< of those that have reached the goal
  std::optional<ScalingFit> fit;
  std::optional<LargestEfficient> largest_efficient;
  std::optional<double> rate_power;  ///< p of: the best effective learning rate grows as batch^p
};

/// The curves of a study of batches with a value to reach; none of others. They point into the results.
std::vector<ScalingCurve> scaling_curves(const StudyResults& results);

}  // namespace lockstep
