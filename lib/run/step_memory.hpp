// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "run/experiment.hpp"

namespace lockstep {

/// What a step needs on each rank, in bytes.
struct StepMemory {
  StepPlan plan;  ///< of the largest micro-batch
  // Of parameters and gradients that ranks divide, their windows and what each rank owns; as if no ranks share memory.
  double parameters = 0;              ///< of the master type
  double rounded = 0, gradients = 0;  ///< the 16-bit copy; with those of deterministic runs' shards
  double states = 0;                  ///< of the optimizer, what each rank has of them
  double checkpoint = 0;              ///< what rank 0 copies for one
  double activations = 0, workspace = 0;
  double batches = 0;  ///< in host memory and on the device

  /// The part that grows with the examples that are computed at once.
  double per_batch() const { return activations + batches; }
  double total() const { return parameters + states + rounded + gradients + activations + workspace + batches; }
};

/// Plans the step of an opened deck on so many ranks, its layers among it, and allocates nothing.
StepMemory step_memory(const RunConfig& config, Experiment& experiment, int ranks);

}  // namespace lockstep
