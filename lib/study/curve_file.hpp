// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "study/pruner.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// Reads the evaluations in a run's metrics.csv as the study's goal judges them; none if there is no file. Throws
/// bad_data if a line is not one that a run writes, as does read_noise_scale.
std::vector<TrialReport> read_curve(const std::filesystem::path& metrics, const GoalOptions& goal);

/// Reads the last gradient noise scale in the file, in examples; none if it is not measured (one rank and one
/// micro-batch).
std::optional<double> read_noise_scale(const std::filesystem::path& metrics);

}  // namespace lockstep
