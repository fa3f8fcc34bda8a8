// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "comm/communicator.hpp"

namespace lockstep {

class OwnSteps;

/// What a step spans: whose gradients make one update, which ranks judge it together, and what the run counts of it.
struct StepScope {
  std::int64_t examples = 0;  ///< of the step's ranks, by which the sum of gradients is divided; 0: they leave it out
  const Communicator* group = nullptr;      ///< the ranks that do the step, and judge it; null: all
  std::span<const std::int64_t> numbers{};  ///< numbers of the group's ranks among all ranks
  bool syncs = true;                        ///< all ranks hold the same parameters after the step
  bool one_version = true;                  ///< all gradients of the step are computed by the same parameters
  OwnSteps* own_steps = nullptr;            ///< steps that the group's optimizer counts; null: those of the run

  /// A row's losses begin with this step's; or this step's are added to them; or this step's replace those of the step
  /// before, which was left out.
  enum class Losses { anew, added, in_place_of_last };
  /// What the run counts of the step.
  struct InRun {
    std::int64_t steps = 1;  ///< steps of the run that are done with it; 0: it is a part of a later one
    Losses losses = Losses::anew;
  };
  InRun in_run{};
};

}  // namespace lockstep
