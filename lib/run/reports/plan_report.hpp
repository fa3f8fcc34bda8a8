// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/deck/run_config.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

/// Where the planned run takes place: on this machine; on other nodes, whose disks are not those of this machine; or on
/// another machine, which does not have the checkpoints of the run's folder either, from which a run here would go on
/// (run.resume: auto).
enum class PlannedRun { here, on_other_nodes, elsewhere };

struct PlanReport {
  std::string text;
  std::optional<Error> refusal;      ///< why a run could not begin in its folders; to be thrown after the plan
  std::vector<std::string> remarks;  ///< warnings: see run_remarks
};

/// Returns what `lockstep check` prints: layers with shapes and parameters, and the operations, memory and all-reduced
/// bytes of a step on `ranks`. Opens the deck's files, and throws for what is wrong with them, but allocates nothing
/// for a step. Builds for devices also say what they plan for (see described_device).
PlanReport plan_report(const RunConfig& config, RankCount ranks, PlannedRun run);

/// Returns what `lockstep check --schedule` prints: the learning rate at some twenty steps of the run. Opens the deck's
/// files.
std::string schedule_report(const RunConfig& config);

}  // namespace lockstep
