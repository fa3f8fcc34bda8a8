// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "comm/communicator.hpp"

namespace lockstep {

class OwnSteps;

/// The ranks whose gradients make one update of a step, which they judge together.
struct StepRanks {
  std::int64_t examples = 0;            ///< of theirs, by which the sum of gradients is divided; 0: they leave it out
  const Communicator* group = nullptr;  ///< null: all ranks
  std::span<const std::int64_t> numbers{};  ///< of the group's ranks among all
  bool syncs = true;                        ///< after the step all ranks hold the same parameters
  bool one_version = true;                  ///< all its gradients are by the same parameters
  std::int64_t updates = 1;                 ///< steps of the run that are done with it; 0: it is a part of a later one
  std::optional<std::int64_t> examples_of_all{};  ///< that all ranks compute in this step; none: the whole batch
  /// Its losses are those of a row; or are added to those of the steps before, of which the last one has come to
  /// nothing in some cases.
  enum class Losses { anew, added, in_place_of_last };
  Losses losses = Losses::anew;
  OwnSteps* own_steps = nullptr;  ///< those that the group's optimizer counts; null: those of the run
};

}  // namespace lockstep
