// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/collective/shard_place.hpp"
#include "comm/node_memory.hpp"
#include "comm/parallel_config.hpp"
#include "comm/shard_groups.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// The all-reduce that a deck asks for. `measured`: what `auto` takes for how many bytes, by rising size; empty:
/// nothing is measured. `memory`: of this node, whose part of this rank begins with the buffer; none: nobody shares
/// memory. Throws SharedError where the deck's algorithm cannot be had. Collective.
std::unique_ptr<Collective> make_all_reduce(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);

// Operations of ranks that divide sums within groups (ShardGroups), as the deck wants them. `memory`: of the group's
// ranks on this node; other arguments are those of make_all_reduce. Collective.

/// What this rank owns of a divided sum.
ShardPlace make_shard_place(const ParallelConfig& config, const Topology& group,
                            const std::optional<NodeMemory>& memory);
/// The sum over a group's ranks, of which each has what it owns.
std::unique_ptr<Collective> make_reduce_scatter(const ParallelConfig& config, const Topology& group,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// The sum over ranks that own the same, one of each group; there are several.
std::unique_ptr<Collective> make_sum_between_groups(ParallelConfig config, const ShardGroups& groups,
                                                    const ReduceBuffer& buffer);
/// The sum over all ranks, of which each has what it owns.
std::unique_ptr<Collective> make_reduce_scatter(const ParallelConfig& config, const ShardGroups& groups,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// The sum over all ranks, of which each has all.
std::unique_ptr<Collective> make_all_reduce(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                            const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);
/// The all-gather in a group of what its ranks own, of whole numbers, whatever the wire's type. `flags`: where a node's
/// ranks have the buffer in common, memory of any size of theirs; none: each has its own.
std::unique_ptr<Collective> make_all_gather(const ParallelConfig& config, const Topology& group,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer);

}  // namespace lockstep
