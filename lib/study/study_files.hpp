// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "study/branches.hpp"
#include "study/results.hpp"
#include "study/scaling_curve.hpp"

namespace lockstep {

/// Every evaluation of every trial: a row each.
std::string measurements_csv(const StudyResults& results);
/// What a study has found.
std::string study_json(const StudyResults& results, const std::vector<ScalingCurve>& curves,
                       const std::vector<BranchCurve>& branches);

}  // namespace lockstep
