// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace lockstep {

/// The outcome of a step, the same on all ranks.
enum class StepStatus {
  applied,   ///< parameters are updated
  skipped,   ///< its gradients are of no use: parameters stay, but the step counts
  fatal,     ///< it cannot be done; the state is that before the step
  rollback,  ///< the run is to go back to its last checkpoint; the state is that before the step
};

/// Requests of a rank after a step; one rank's request is enough.
struct StepRequests {
  bool stop = false;        ///< this step is to be the last one
  bool checkpoint = false;  ///< it is time for a checkpoint
};

/// Finding about a step.
struct StepFinding {
  StepStatus status = StepStatus::applied;
  std::string message;          ///< the reason, unless the step is applied; then a warning, or empty
  bool bad_parameters = false;  ///< the step is fatal, or goes back, because parameters are not finite
  std::int64_t number = 0;      ///< number of the step, from 1 on; 0: no step is known

  /// Whether the step counts, and the run goes on from it.
  bool done() const { return status == StepStatus::applied || status == StepStatus::skipped; }
};

/// Thrown by a rank whose group, or which itself, steps separately, if its step cannot be done. The other ranks do not
/// know of it, and have to end with it.
struct SeparateStepError : Error {
  using Error::Error;
};

/// What the host knows of the last step.
struct StepResult {
  StepRequests requests;      ///< of all ranks
  std::int64_t examples = 0;  ///< of all ranks
  /// The newest finding: on devices, that of the step before, of which the host hears a step late; none: of no step.
  std::optional<StepFinding> finding;

  /// Whether all steps that have a finding count.
  bool done() const { return !finding || finding->done(); }
};

}  // namespace lockstep
