// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/memory_estimate.hpp"

namespace lockstep {

/// The way to divide the model that `parallel.shard: auto` is resolved to.
struct ShardChoice {
  Shard shard = Shard::none;
  bool fits = true;  ///< the step fits into parallel.memory_gb
  std::string why;   ///< "auto chooses gradients: a step needs 1.20 GB of 2.00 GB per rank; …"
                     ///< with times: "auto chooses optimizer: predicted 97.8 ms per step (gradients 99.4, none 104)"
};

/// Whether this deck's all-reduces cannot be split into two halves, of which ranks that divide the model would do only
/// one: sums in fixed trees, and sums between devices.
bool has_whole_sums(const ParallelConfig& config, const DeviceFacts& facts);
/// Returns the ways to divide the model that the deck allows on so many ranks, the fastest first. The order needs no
/// measurement: with each further way a rank sends at least as much as with the one before, and updates as much.
/// Dividing nothing is the fastest way only with `whole_sums`; otherwise it sends as much as dividing the optimizer
/// does, and every rank updates everything (perf/results/shards.md).
std::vector<Shard> shards_by_speed(const TrainingConfig& config, int ranks, bool whole_sums);

/// Replaces `parallel.shard: auto` in `config` by the way that is chosen, and returns that choice; none if the deck
/// names a way. Chosen is the first of shards_by_speed, or where times are predicted (TrainingConfig::shard_times) the
/// fastest, whose step fits into parallel.memory_gb; if none fits, the one that needs least, which check_memory then
/// refuses. `memory` is that of a step that divides nothing.
std::optional<ShardChoice> resolve_shard(TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory,
                                         RankCount ranks, bool whole_sums);

}  // namespace lockstep
