// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collective/algorithm.hpp"
#include "comm/collective/all_reduce_table.hpp"
#include "comm/collective/shard_place.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"

namespace lockstep {

// Create the operations that `options` describe. Collective; they throw Error (bad_deck) if the algorithm lacks the
// operation or cannot be used here.

/// The sum over all ranks, complete on each. `measured`: all-reduces by increasing number of bytes, used if
/// options.all_reduce is null; empty: no measurement. `memory`: memory of this node, in which this rank's part begins
/// with the buffer; empty if ranks share no memory.
std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);
/// The part of a reduce-scattered sum that this rank owns. `memory`: the memory that the sum uses.
ShardPlace make_shard_place(const SumOptions& options, const Topology& topology,
                            const std::optional<NodeMemory>& memory);
/// The sum over all ranks, of which each rank gets the part that it owns. `memory`: see make_all_reduce.
std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const Topology& topology,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// The all-gather of the parts that ranks own, at full precision whatever the wire type. `flags`: memory of any size of
/// the node's ranks, if they have the buffer in common; empty if each has a buffer of its own.
std::unique_ptr<Collective> make_all_gather(const SumOptions& options, const Topology& topology,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer);

}  // namespace lockstep
