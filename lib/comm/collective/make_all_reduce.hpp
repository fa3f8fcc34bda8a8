// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/collective/shard_place.hpp"
#include "comm/collective/sum_options.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"

namespace lockstep {

// Operations that `options` ask for. They are collective, and throw Error (bad_deck) where the algorithm has none such,
// or cannot be had here.

/// The sum over all ranks, of which each has all. `measured`: what is taken for how many bytes where options.all_reduce
/// is null, by rising size; empty: nothing is measured. `memory`: of this node, whose part of this rank begins with the
/// buffer; none: nobody shares memory.
std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);
/// What this rank owns of a divided sum; `memory`: that of the sum.
ShardPlace make_shard_place(const SumOptions& options, const Topology& topology,
                            const std::optional<NodeMemory>& memory);
/// The sum over all ranks, of which each has what it owns. `memory`: see make_all_reduce.
std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const Topology& topology,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// The all-gather of what ranks own, of whole numbers, whatever the wire's type. `flags`: where a node's ranks have the
/// buffer in common, memory of any size of theirs; none: each has its own.
std::unique_ptr<Collective> make_all_gather(const SumOptions& options, const Topology& topology,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer);

}  // namespace lockstep
