// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "study/pruner.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// The evaluations in a run's metrics.csv, as a study's goal sees them. Both throw bad_data for a file with lines that
/// no run has written; where there is none, nothing is found.
std::vector<TrialReport> read_curve(const std::filesystem::path& metrics, const GoalOptions& goal);

/// The last gradient noise scale there, in examples; none where it is not measured (one rank and one micro-batch).
std::optional<double> read_noise_scale(const std::filesystem::path& metrics);

}  // namespace lockstep
