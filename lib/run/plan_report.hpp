// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "run/run_config.hpp"
#include "train/step_memory.hpp"

namespace lockstep {

/// What `lockstep check` prints: layers with shapes and parameters, operations, memory and bytes
/// reduced of a step on so many ranks. Opens the deck's files, and throws for what is wrong with
/// them, but allocates nothing for a step. Builds for devices also say what they plan for (see described_device).
std::string plan_report(const RunConfig& config, RankCount ranks);

/// The learning rate's course, in some forty steps of the run: what `lockstep check --schedule` prints. Opens the
/// deck's files.
std::string schedule_report(const RunConfig& config);

}  // namespace lockstep
