// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/device_sums.hpp"
#include "train/step_memory.hpp"

namespace lockstep {

/// What `parallel.shard: auto` comes to.
struct ShardChoice {
  ParallelConfig::Shard shard = ParallelConfig::Shard::none;
  bool fits = true;  ///< into parallel.memory_gb
  std::string why;   ///< "auto takes gradients: a step needs 1.2 GB of 2 GB a rank; optimizer would need 2.4 GB"
                     ///< with times: "auto takes optimizer: 97.8 ms a step are predicted (gradients 99.4, none 104)"
};

/// Whether sums of such a deck are not made of two halves, of which ranks that divide could do one: fixed trees, sums
/// between devices.
bool has_whole_sums(const ParallelConfig& config, const DeviceFacts& facts);
/// The ways to divide that a deck and so many ranks allow, the fastest first. That order needs no measurement: with
/// each further way a rank sends as much as with the one before or more, and updates as much. Only with `whole_sums` is
/// dividing nothing the fastest; elsewhere it sends as much as dividing the optimizer, with every rank updating
/// everything (perf/results/shards.md).
std::vector<ParallelConfig::Shard> shards_by_speed(const TrainingConfig& config, int ranks, bool whole_sums);

/// The deck takes what its `parallel.shard: auto` comes to; none: it names a way. That is the first of them, or where
/// their times are predicted (TrainingConfig::shard_times) the fastest, whose step fits into parallel.memory_gb; where
/// none does, the one that needs least, which check_memory then refuses. `memory`: of a step that divides nothing.
std::optional<ShardChoice> resolve_shard(TrainingConfig& config, const Graph& graph, const StepMemory& memory,
                                         RankCount ranks, bool whole_sums);

}  // namespace lockstep
