// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>

#include "comm/collective/collective.hpp"
#include "comm/collective/shard_place.hpp"
#include "comm/node_memory.hpp"

namespace lockstep {

/// Sums in two levels. In a node, whose ranks see each other's numbers in `memory`, each rank adds up a share of the
/// elements, in the order of ranks. With several nodes, the first `leaders` ranks of each (as many in all of them) have
/// a stretch of the elements each: they sum it with the leaders of the same number in the other nodes, and the node's
/// ranks copy the result from them. With a single node `leaders` is 0.
///
/// The buffer is elements of `dtype` at the beginning of each part of `memory`; `between`, of leaders alone, sums
/// over this rank's own part.
std::unique_ptr<Collective> node_all_reduce(const NodeMemory& memory, DType dtype, int leaders,
                                            std::unique_ptr<Collective> between);
/// Sums as node_all_reduce does, and leaves each rank what it owns of them (`place`); what a rank has elsewhere means
/// nothing. `between` is a reduce-scatter.
std::unique_ptr<Collective> node_reduce_scatter(const NodeMemory& memory, DType dtype, const ShardPlace& place,
                                                std::unique_ptr<Collective> between);
/// An all-gather in a buffer that a node's ranks have in common and that each has changed where it owns it: the ranks
/// wait for each other, and with several nodes `between`, of the `leaders` first ranks alone, gathers the parts of
/// theirs. `ranks`: memory of any size of theirs, for flags.
std::unique_ptr<Collective> node_all_gather(const NodeMemory& ranks, int leaders, std::unique_ptr<Collective> between);

}  // namespace lockstep
