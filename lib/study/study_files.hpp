// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "study/branches.hpp"
#include "study/results.hpp"
#include "study/scaling_curve.hpp"

namespace lockstep {

/// Returns a row for each evaluation of each trial.
std::string measurements_csv(const StudyResults& results);
/// Returns the study's results as JSON.
std::string study_json(const StudyResults& results, const std::vector<ScalingCurve>& curves,
                       const std::vector<BranchCurve>& branches);

}  // namespace lockstep
