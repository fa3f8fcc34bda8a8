// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "study/branches.hpp"
#include "study/results.hpp"
#include "study/scaling_curve.hpp"

namespace lockstep {

/// Returns the names and the SVG texts of a study's pictures; none if the study has no curve over batches.
std::vector<std::pair<std::string, std::string>> study_pictures(const StudyResults& results,
                                                                const std::vector<ScalingCurve>& curves,
                                                                const std::vector<BranchCurve>& branches);

}  // namespace lockstep
