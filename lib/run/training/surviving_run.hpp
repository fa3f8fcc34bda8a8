// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

#include "run/training/training_run.hpp"

namespace lockstep {

/// Trains a deck with parallel.survive: when a rank is lost, the remaining ones begin a new TrainingRun in the same
/// processes, which goes on from the newest checkpoint as a new start on so many ranks would, or begins anew.
/// `over_network`: returns these ranks over the network that they are to use; collective. Returns and throws what
/// TrainingRun::run does; also throws DeckError if ranks cannot outlive each other, and rank_lost if one dies before
/// the run has begun. Collective.
ExitStatus train_surviving(const RunConfig& config, const Communicator& all,
                           const std::function<Communicator(const Communicator&)>& over_network);

}  // namespace lockstep
