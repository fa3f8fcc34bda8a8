// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>

#include "comm/device_all_reduce.hpp"
#include "comm/node_memory.hpp"
#include "nn/plan/execution_plan.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/shard_groups.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Returns where gradients are summed, as the deck asks for it; mpi still depends on what MPI can do. Throws KeyError
/// if the deck's choice cannot be had.
DeviceSums choose_device_sums(const ParallelConfig& config, const DeviceFacts& facts);

/// Returns memory of these ranks of a node for `bytes` of gradients of each, if the deck's all-reduce wants it and it
/// can be had on all nodes. Warns once if it cannot be had. Collective over `all`.
std::optional<NodeMemory> gradient_memory(const ParallelConfig& config, const Communicator& all,
                                          const Communicator& node, std::size_t bytes);

/// How layers see parameters and gradients, and which of them a node's ranks show each other.
struct ParallelMemory {
  UnshardPlan windows;
  std::optional<NodeMemory> gradients;  ///< of each rank
  /// One copy of the parameters, or of their windows, followed by its 16-bit copy; null: each rank has its own.
  std::shared_ptr<std::byte[]> parameters;
  std::optional<NodeMemory> flags;  ///< for ranks that share `parameters`

  /// Returns the memory of a rank's buffers on hosts; devices have memory of their own. `rank_in_node` is the rank's
  /// number among the ranks of its group on the node.
  ParameterMemory of_buffers(const ParameterLayout& layout, DType dtype, int rank_in_node) const;
};

/// Returns the memory that the deck wants, as far as it can be had; warns once if it cannot. `dtype` is that of the
/// activations. Collective.
ParallelMemory parallel_memory(const ParallelConfig& config, const ShardGroups& groups, const Graph& graph,
                               const ExecutionPlan& plan, DType dtype);
/// Whether a node's ranks have one copy of divided parameters, or of their windows, if there is memory for it.
bool may_share_parameters(const ParallelConfig& config);
/// Returns what the ranks of a group divide, as the deck wants it; `group` is their number. `shares` says that all of
/// them share one copy of the values in memory. They then do not divide the values, unless what ranks own is offloaded.
/// Whatever depends on divided gradients or values (micro-batches with sums of their own, windows, plans) asks this.
ParameterDivision parameter_division(const ParallelConfig& config, int group, bool shares);

}  // namespace lockstep
