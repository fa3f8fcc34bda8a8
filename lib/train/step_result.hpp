// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// What became of a step, the same on all ranks.
enum class StepStatus {
  applied,   ///< parameters are updated
  skipped,   ///< its gradients are of no use: parameters stay, the step counts
  fatal,     ///< it cannot be done; the state is that before it
  rollback,  ///< the run is to go back to its last checkpoint; the state is that before it
};

/// What a rank asks for after a step; one that asks is enough.
struct StepRequests {
  bool stop = false;        ///< this step is to be the last one
  bool checkpoint = false;  ///< it is time for one
};

/// What was found of a step.
struct StepFinding {
  StepStatus status = StepStatus::applied;
  std::string message;          ///< why, unless it is applied; then a warning, or empty
  bool bad_parameters = false;  ///< it is fatal, or goes back, because of parameters that are not finite
  std::int64_t number = 0;      ///< of the step, from 1 on; 0: none has been heard of

  /// The step counts, and the run goes on from it.
  bool done() const { return status == StepStatus::applied || status == StepStatus::skipped; }
};

struct StepResult : StepFinding {
  StepRequests requests;      ///< of all ranks
  std::int64_t examples = 0;  ///< of all ranks
};

}  // namespace lockstep
