// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "run/deck/run_config.hpp"
#include "scaling/prediction.hpp"

namespace lockstep {

/// Returns the times of steps with each parallel.shard that a workload allows, on `ranks` ranks of a machine whose
/// ranks_per_node are those of these nodes.
std::vector<TrainingConfig::ShardTime> shard_times(const Machine& machine, Workload& workload, RankCount ranks);

/// Sets the times by which parallel.shard: auto chooses (TrainingConfig::shard_times), if the deck asks for that choice
/// and names a machine. Throws for errors in the machine's file.
void predict_shards(RunConfig& config, RankCount ranks);
/// Does so for a run on these ranks, on rank 0, whose deck chooses for all. Collective.
void predict_shards(RunConfig& config, const Communicator& comm);

}  // namespace lockstep
