// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "run/deck/run_config.hpp"
#include "scaling/prediction.hpp"

namespace lockstep {

/// Steps in each parallel.shard that a workload allows, on so many ranks of a machine, whose ranks_per_node are the
/// nodes'.
std::vector<TrainingConfig::ShardTime> shard_times(const Machine& machine, Workload& workload, RankCount ranks);

/// Gives a deck with parallel.shard: auto the times by which it is chosen (TrainingConfig::shard_times), where it names
/// a machine. Throws for what is wrong with its file.
void predict_shards(RunConfig& config, RankCount ranks);
/// Of a run on these ranks: rank 0's deck, which chooses for all. Collective.
void predict_shards(RunConfig& config, const Communicator& comm);

}  // namespace lockstep
