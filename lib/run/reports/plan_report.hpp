// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/deck/run_config.hpp"
#include "train/step_memory.hpp"

namespace lockstep {

/// Where the run is that is planned for. In the place of its folder, whose checkpoints it would go on from
/// (run.resume: auto), a plan for elsewhere looks at none.
enum class PlannedRun { here, elsewhere };

struct PlanReport {
  std::string text;
  std::optional<Error> refusal;      ///< why a run here could not go on from its folder's checkpoint
  std::vector<std::string> remarks;  ///< to warn of: see run_remarks
};

/// What `lockstep check` prints: layers with shapes and parameters, operations, memory and bytes
/// reduced of a step on so many ranks. Opens the deck's files, and throws for what is wrong with
/// them, but allocates nothing for a step. Builds for devices also say what they plan for (see described_device).
PlanReport plan_report(const RunConfig& config, RankCount ranks, PlannedRun run);

/// The learning rate's course, in some forty steps of the run: what `lockstep check --schedule` prints. Opens the
/// deck's files.
std::string schedule_report(const RunConfig& config);

}  // namespace lockstep
