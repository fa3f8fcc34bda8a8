// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/device_sums.hpp"
#include "data/dataset.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Ranks of a run, as many on each of its nodes.
struct RankCount {
  int all, nodes;
};
/// Those of a group on a node that have one copy of what layers see of divided parameters.
int ranks_that_share(const ParallelConfig& config, RankCount ranks);

/// What each rank has of the model in a step, in bytes. Of parameters and gradients that ranks divide, that is their
/// windows and what the rank owns.
struct ModelMemory {
  double parameters = 0;  ///< of the master type; with what parallel.local keeps of the last synchronization
  double rounded = 0, gradients = 0;  ///< the 16-bit copy; with those of deterministic runs' shards
  double states =
      0;  ///< of the optimizer, of parallel.local and of asynchronous workers; of offloaded ones the blocks in memory
  double offloaded = 0;   ///< of the states, and of parameters, not in memory
  double elsewhere = 0;   ///< of these, the parameters that a rank owns
  double checkpoint = 0;  ///< what rank 0 copies for one

  double model() const { return parameters + rounded + gradients + states; }
};
/// Throws KeyError where the deck's groups do not suit the ranks.
ModelMemory model_memory(const TrainingConfig& config, const Graph& graph, const StepPlan& plan, RankCount ranks);

/// Bytes of the copies of gradients in 16 bits that travel between devices (DeviceReducer).
double wire_bytes(const ParallelConfig& config, const ParameterLayout& layout, RankCount ranks,
                  const DeviceFacts& devices);

/// What a step needs on each rank, in bytes.
struct StepMemory : ModelMemory {
  StepPlan plan;  ///< of the largest micro-batch
  double activations = 0, workspace = 0;
  double batches = 0;  ///< in host memory and on the device

  /// The part that grows with the examples that are computed at once.
  double per_batch() const { return activations + batches; }
  double total() const { return model() + activations + workspace + batches; }
};

/// Plans the step of a deck on so many ranks, the graph's layers among it, and allocates nothing.
StepMemory step_memory(const TrainingConfig& config, Graph& graph, const Dataset& train, RankCount ranks);

/// What a step needs on each rank, in bytes, that differs from that of `memory` in parallel.shard alone.
double memory_with(ParallelConfig::Shard shard, TrainingConfig config, const Graph& graph, const StepMemory& memory,
                   RankCount ranks);

/// Throws KeyError (parallel.memory_gb) where a step needs more than the deck allows, and says which way of dividing
/// the model would do.
void check_memory(const TrainingConfig& config, const Graph& graph, const StepMemory& memory, RankCount ranks);
/// "none 1.58 GB, optimizer 990 MB, …": what steps need that differ in parallel.shard alone.
std::string memory_by_shard(const TrainingConfig& config, const Graph& graph, const StepMemory& memory,
                            RankCount ranks);

}  // namespace lockstep
