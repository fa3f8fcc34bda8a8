// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// What `lockstep report --study` prints of a study, whether it has ended or not: steps to the goal, the three regimes,
/// the best points. Leaves measurements.csv, study.json and pictures in the folder. Throws what read_results does.
std::string report_study(const std::filesystem::path& folder);

}  // namespace lockstep
