// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/regimes.hpp"
#include "study/results.hpp"

namespace lockstep {

/// Groups that differ only in their batch, with what follows from them together.
struct ScalingCurve {
  std::string name;                        ///< the other settings that vary; empty: none
  std::vector<const GroupResult*> groups;  ///< in the order of batches
  std::vector<BatchSteps> steps;           ///< of the groups that have reached the goal
  std::optional<ScalingFit> fit;
  std::optional<LargestEfficient> largest_efficient;
  std::optional<double> rate_power;  ///< exponent p: the best effective learning rate grows as batch^p
};

/// Returns the curves of a study of batches with a goal value; none for other studies. They point into `results`.
std::vector<ScalingCurve> scaling_curves(const StudyResults& results);

}  // namespace lockstep
