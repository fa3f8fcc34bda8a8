// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "data/dataset/dataset.hpp"
#include "parallel/model_memory.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Bytes that a step needs on each rank.
struct MemoryEstimate : ModelMemory {
  ExecutionPlan plan;  ///< of the largest micro-batch
  double activations = 0, workspace = 0;
  double batches = 0;  ///< in host memory and on the device

  /// Bytes that grow with the number of examples computed at once.
  double per_batch() const { return activations + batches; }
  double total() const { return model() + activations + workspace + batches; }
};

/// See model_memory of the deck's sections.
inline ModelMemory model_memory(const TrainingConfig& config, const Graph& graph, const ExecutionPlan& plan,
                                RankCount ranks) {
  return model_memory(config.parallel, config.optimizer, config.dtype(), graph, plan, ranks);
}

/// Plans the step of a deck on so many ranks, the graph's layers included. Allocates nothing.
MemoryEstimate memory_estimate(const TrainingConfig& config, Graph& graph, const Dataset& train, RankCount ranks);

/// Returns the bytes, on each rank, of a step that differs from that of `memory` in parallel.shard alone.
double memory_with(Shard shard, TrainingConfig config, const Graph& graph, const MemoryEstimate& memory,
                   RankCount ranks);

/// Throws KeyError (parallel.memory_gb) if a step needs more than the deck allows. The message says which way to divide
/// the model would fit.
void check_memory(const TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory, RankCount ranks);
/// Returns "none 1.58 GB, optimizer 990 MB, …": what steps need that differ in parallel.shard alone.
std::string memory_by_shard(const TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory,
                            RankCount ranks);

}  // namespace lockstep
