// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "comm/communicator.hpp"

namespace lockstep {

class OwnSteps;

/// What a step spans: whose gradients make one update, who judges it together, and what the run counts of it.
struct StepScope {
  std::int64_t examples = 0;  ///< of its ranks, by which the sum of gradients is divided; 0: they leave it out
  const Communicator* group = nullptr;      ///< its ranks, which judge it; null: all
  std::span<const std::int64_t> numbers{};  ///< of the group's ranks among all
  bool syncs = true;                        ///< after the step all ranks hold the same parameters
  bool one_version = true;                  ///< all its gradients are by the same parameters
  OwnSteps* own_steps = nullptr;            ///< those that the group's optimizer counts; null: those of the run

  /// Losses of a row begin with this step's, or this step's are added to them; of which those of the step before may
  /// first be taken back, as it has come to nothing.
  enum class Losses { anew, added, in_place_of_last };
  /// What the run counts of it.
  struct InRun {
    std::int64_t steps = 1;                  ///< of the run, that are done with it; 0: it is a part of a later one
    std::optional<std::int64_t> examples{};  ///< that all ranks compute in it; none: the whole batch
    Losses losses = Losses::anew;
  };
  InRun in_run{};
};

}  // namespace lockstep
