// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// What attempts at a run leave to the next attempt by the same processes, if they have ended as ranks were lost
/// (parallel.survive).
struct EarlierAttempts {
  std::vector<int> lost_ranks;  ///< numbers of the lost ranks at the start of the processes
  bool has_begun = false;       ///< an attempt has taken possession of the output folder, so the next one may as well
};

/// Trains a deck with parallel.survive: when a rank is lost, the remaining ones begin a new TrainingRun in the same
/// processes, which goes on from the newest checkpoint as a new start on so many ranks would, or begins anew.
/// `over_network`: returns these ranks over the network that they are to use; collective. Returns and throws what
/// TrainingRun::run does; also throws DeckError if ranks cannot outlive each other, and rank_lost if one dies before
/// the run has begun. Collective.
ExitStatus train_surviving(const RunConfig& config, const Communicator& all,
                           const std::function<Communicator(const Communicator&)>& over_network);

}  // namespace lockstep
