// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "comm/device_all_reduce.hpp"
#include "nn/plan/execution_plan.hpp"
#include "optim/optimizer.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parameters/parameter_layout.hpp"

namespace lockstep {

/// Numbers of ranks and of nodes in a run. Each node has equally many ranks.
struct RankCount {
  int all, nodes;
};
/// The ranks that train synchronously together: all, or those of a group of parallel.local.
RankCount synchronous_ranks(const ParallelConfig& config, RankCount ranks);
/// Number of ranks of a group, on one node, that share one copy of what layers see of divided parameters.
int ranks_that_share(const ParallelConfig& config, RankCount ranks);

/// Returns the number of trained parameters that the rank with the most of them owns, if ranks divide the model.
/// `shares`: ranks of a node sum in its memory, and share the parameters (may_share_parameters).
std::int64_t largest_part(const ParallelConfig& config, const ParameterLayout& layout, RankCount ranks, bool shares);

/// Bytes of the model on each rank in a step. Of parameters and gradients that ranks divide, these are the windows and
/// what the rank owns.
struct ModelMemory {
  double parameters = 0;  ///< in the master type; with the copy that parallel.local keeps of the last synchronization
  double rounded = 0, gradients = 0;  ///< of the 16-bit copy; with those of deterministic runs' shards
  double states = 0;      ///< of optimizer, parallel.local, asynchronous workers; if offloaded, the blocks in memory
  double offloaded = 0;   ///< of states, and of parameters, that are not in memory
  double elsewhere = 0;   ///< of these, the parameters that a rank owns
  double checkpoint = 0;  ///< that rank 0 copies for a checkpoint

  double model() const { return parameters + rounded + gradients + states; }
};
/// `dtype` is that of the activations. Throws KeyError if the deck's groups do not suit the ranks.
ModelMemory model_memory(const ParallelConfig& config, const OptimizerConfig& optimizer, DType dtype,
                         const Graph& graph, const ExecutionPlan& plan, RankCount ranks);

/// Returns the bytes of 16-bit copies of gradients that travel between devices (DeviceReducer).
double wire_bytes(const ParallelConfig& config, const ParameterLayout& layout, RankCount ranks,
                  const DeviceFacts& devices);

}  // namespace lockstep
