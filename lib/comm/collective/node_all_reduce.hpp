// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/collective/collective.hpp"
#include "comm/collective/shard_place.hpp"
#include "comm/node_memory.hpp"

namespace lockstep {

/// An all-reduce in two levels. Within a node, whose ranks access each other's numbers in `memory`, each rank sums a
/// share of the elements, in rank order. With several nodes, each of the first `leaders` ranks of a node (the same
/// number in all nodes) is responsible for a range of elements: it sums this range with the leaders of the same number
/// in the other nodes, and the ranks of its node copy the result. With a single node `leaders` is 0.
///
/// The buffer consists of elements of `dtype` at the beginning of each part of `memory`; `between`, on leaders only,
/// sums over this rank's own part.
std::unique_ptr<Collective> node_all_reduce(const NodeMemory& memory, DType dtype, int leaders,
                                            std::unique_ptr<Collective> between);
/// Sums like node_all_reduce, but each rank gets only the elements that it owns (`place`); its other elements are left
/// undefined. `between` is a reduce-scatter.
std::unique_ptr<Collective> node_reduce_scatter(const NodeMemory& memory, DType dtype, const ShardPlace& place,
                                                std::unique_ptr<Collective> between);
/// An all-gather in a buffer that the ranks of a node share, after each has changed the elements that it owns. The
/// ranks wait for each other; with several nodes, `between`, on the first `leaders` ranks only, gathers the parts of
/// the other nodes. `ranks`: memory of any size of the node's ranks, for flags.
std::unique_ptr<Collective> node_all_gather(const NodeMemory& ranks, int leaders, std::unique_ptr<Collective> between);

}  // namespace lockstep
