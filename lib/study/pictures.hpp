// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "study/branches.hpp"
#include "study/results.hpp"
#include "study/scaling_curve.hpp"

namespace lockstep {

/// Names and texts (SVG) of a study's pictures; none where it has no curve over batches.
std::vector<std::pair<std::string, std::string>> study_pictures(const StudyResults& results,
                                                                const std::vector<ScalingCurve>& curves,
                                                                const std::vector<BranchCurve>& branches);

}  // namespace lockstep
