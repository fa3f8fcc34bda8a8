// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>

#include "comm/node_memory.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/shard_groups.hpp"

namespace lockstep {

/// Memory of these ranks of a node for `bytes` of gradients of each, where the deck's all-reduce wants one and it can
/// be had on all nodes. Says so once if it cannot. Collective over all ranks.
std::optional<NodeMemory> gradient_memory(const ParallelConfig& config, const Communicator& all,
                                          const Communicator& node, std::size_t bytes);

/// How layers see parameters and gradients, and what of them a node's ranks show each other.
struct ParallelMemory {
  ParameterWindows windows;
  std::optional<NodeMemory> gradients;  ///< each rank's
  /// One copy of the parameters, or of their windows, and of that in 16 bits, after it; null: each rank has its own.
  std::shared_ptr<std::byte[]> parameters;
  std::optional<NodeMemory> flags;  ///< beside `parameters`

  /// What a rank's buffers lie in: of hosts, since devices have memory of their own. `rank_in_node`: of its group's.
  ParameterMemory of_buffers(const ParameterLayout& layout, DType dtype, int rank_in_node) const;
};

/// What the deck wants, where it can be had; says so once if it cannot. `dtype`: of the activations. Collective.
ParallelMemory parallel_memory(const ParallelConfig& config, const ShardGroups& groups, const Graph& graph,
                               const StepPlan& plan, DType dtype);
/// Whether a node's ranks have one copy of parameters that are divided, or of their windows, if there is memory for it.
bool may_share_parameters(const ParallelConfig& config);
/// What so many ranks divide as the deck wants it; `shares`: whether they have one copy of the values in memory that
/// all of them share, which they do not divide then, unless what is owned is elsewhere.
ParameterDivision parameter_division(const ParallelConfig& config, int ranks, bool shares);

}  // namespace lockstep
