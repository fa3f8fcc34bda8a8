// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/element_range.hpp"

namespace lockstep {

/// Range number `number` of `slices` ranges of `count` elements, whose sizes differ by at most one.
inline ElementRange slice_of(std::int64_t count, std::int64_t number, std::int64_t slices) {
  return ElementRange::between(count * number / slices, count * (number + 1) / slices);
}

/// Range of `count` elements that belongs to `rank`: equal numbers of whole blocks (array_block); the last block may be
/// shorter.
inline ElementRange slice_of_rank(std::int64_t count, int rank, int size) {
  const ElementRange blocks = slice_of(array_blocks(count), rank, size);
  return ElementRange::between(std::min(count, blocks.first * array_block),
                               std::min(count, blocks.end() * array_block));
}

/// One round of a rank in a collective operation: it sends elements to one rank while it receives elements from
/// another. The next round begins when both are done.
struct CommRound {
  struct Part {
    int peer = -1;  ///< -1: none
    std::int64_t first = 0, count = 0;
    /// Results, which replace the receiver's elements; otherwise summands, which are added to them.
    bool final = false;

    explicit operator bool() const { return peer >= 0 && count > 0; }
  };
  Part send, receive;
};

/// All rounds of one rank, in order.
using CommSchedule = std::vector<CommRound>;

// Schedules of one rank of `size` for a buffer of `count` elements. Exactly one rank completes each sum, and all others
// get copies, so that all have the same bits. Names and costs are those of Thakur, Rabenseifner and Gropp,
// "Optimization of collective communication operations in MPICH", 2005; P is the number of ranks.
//
// An all-reduce leaves the sums of all elements on every rank. A reduce-scatter leaves those of slice_of_rank(count, r,
// size) on rank r, and its other elements undefined. An all-gather starts from the result of a reduce-scatter and
// leaves all slices on every rank.

/// Slices travel around a ring and are accumulated: P − 1 messages of count / P elements, the minimum number of bytes.
CommSchedule ring_reduce_scatter(int rank, int size, std::int64_t count);
/// Slices travel around a ring: P − 1 messages of count / P elements.
CommSchedule ring_all_gather(int rank, int size, std::int64_t count);
/// ring_reduce_scatter followed by ring_all_gather.
CommSchedule ring_all_reduce(int rank, int size, std::int64_t count);

/// Recursive halving: halves, quarters, … are exchanged with ever nearer ranks and accumulated: log₂ P messages, as few
/// bytes as the ring. Ranks beyond a power of two first send all their elements to a neighbour, and get their slice
/// last.
CommSchedule halving_reduce_scatter(int rank, int size, std::int64_t count);
/// Recursive doubling, the mirror image of halving: slices, pairs of slices, … are exchanged with ever farther ranks.
CommSchedule doubling_all_gather(int rank, int size, std::int64_t count);
/// Recursive halving followed by recursive doubling.
CommSchedule halving_doubling_all_reduce(int rank, int size, std::int64_t count);

/// Sums up a binary tree and sends results down again, pipelined in segments: 2 log₂ P latencies.
CommSchedule tree_all_reduce(int rank, int size, std::int64_t count);
/// Sends elements of rank 0 down a binary tree, pipelined in segments.
CommSchedule tree_broadcast(int rank, int size, std::int64_t count);

/// Each rank sends one element to every other rank and receives one from it: P − 1 messages.
CommSchedule pairwise_exchange(int rank, int size);

/// Combines neighbouring ranks first, then neighbouring pairs, …, always with the lower ranks on the left, so that the
/// operation need not be commutative. The result returns the same way.
CommSchedule ordered_all_reduce(int rank, int size, std::int64_t count);

}  // namespace lockstep
