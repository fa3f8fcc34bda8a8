// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

#include "run/training/training_run.hpp"

namespace lockstep {

/// A run of a deck with parallel.survive: where a rank is lost, those that are left begin a TrainingRun of their own in
/// the same processes, which goes on from the newest checkpoint as a new start on so many ranks would, or begins anew.
/// `over_network`: the ranks over the network that they are to use; collective. Returns and throws what
/// TrainingRun::run does; KeyError, with its position, where ranks cannot outlive each other. Collective.
ExitStatus train_surviving(const RunConfig& config, const Communicator& all,
                           const std::function<Communicator(const Communicator&)>& over_network);

}  // namespace lockstep
