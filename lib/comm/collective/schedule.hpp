// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/array_block.hpp"

namespace lockstep {

/// Elements from first to before end.
struct Stretch {
  std::int64_t first = 0, end = 0;

  std::int64_t count() const { return end - first; }
  Stretch within(const Stretch& other) const {
    const std::int64_t begin = std::max(first, other.first);
    return {begin, std::max(begin, std::min(end, other.end))};
  }
};

/// The slice of this number, of `slices` equal ones (but for one element) of `count` elements.
inline Stretch slice_of(std::int64_t count, std::int64_t number, std::int64_t slices) {
  return {count * number / slices, count * (number + 1) / slices};
}

/// The slice of `count` elements that is rank's of `size`: equal ones in whole blocks (array_block), the last of which
/// may be cut short.
inline Stretch slice_of_rank(std::int64_t count, int rank, int size) {
  const Stretch blocks = slice_of(array_blocks(count), rank, size);
  return {std::min(count, blocks.first * array_block), std::min(count, blocks.end * array_block)};
}

/// What one rank does at one time in a collective operation: it sends elements to one rank while it receives others
/// from another. The next step begins when both are done.
struct Step {
  struct Part {
    int peer = -1;  ///< none
    std::int64_t first = 0, count = 0;
    bool final = false;  ///< results, which replace what the receiver has; else they are added to it

    explicit operator bool() const { return peer >= 0 && count > 0; }
  };
  Part send, receive;
};

/// All steps of one rank, one after the other.
using Schedule = std::vector<Step>;

// The schedules of one rank of `size` for a buffer of `count` elements. Of every sum one rank alone adds up the last
// summand, and all others get copies: so all have the same bits. Names and costs: Thakur, Rabenseifner and Gropp,
// "Optimization of collective communication operations in MPICH", 2005.
//
// After an all-reduce every rank has the sums of all elements; after a reduce-scatter rank r has those of
// slice_of_rank(count, r, size), and what it has elsewhere means nothing. An all-gather begins with what a
// reduce-scatter leaves, and all ranks get all slices.

/// Slices go round and are added up: P − 1 messages of count / P, the fewest bytes of all.
Schedule ring_reduce_scatter(int rank, int size, std::int64_t count);
/// Slices go round.
Schedule ring_all_gather(int rank, int size, std::int64_t count);
/// The one, and then the other.
Schedule ring_all_reduce(int rank, int size, std::int64_t count);

/// Halves, quarters, … are exchanged with ever nearer ranks and added up: log₂ P messages, and as few bytes as the
/// ring. Ranks beyond a power of two hand theirs over first, and get their slice last.
Schedule halving_reduce_scatter(int rank, int size, std::int64_t count);
/// An all-gather that mirrors halving: slices, pairs of them, … are exchanged with ever farther ranks.
Schedule doubling_all_gather(int rank, int size, std::int64_t count);
/// The one, and then the other.
Schedule halving_doubling_all_reduce(int rank, int size, std::int64_t count);

/// Up a binary tree and down again, in segments that follow each other: 2 log₂ P latencies.
Schedule tree_all_reduce(int rank, int size, std::int64_t count);
/// From rank 0 down a binary tree, in segments that follow each other.
Schedule tree_broadcast(int rank, int size, std::int64_t count);

/// Each rank sends an element to each other, of which it is the first, and gets one from it: P − 1 messages.
Schedule pairwise_exchange(int rank, int size);

/// Neighbouring ranks first, then neighbouring pairs, …: each combines what ranks have that follow each other, the
/// lower ones' on the left, so that an operation need not be commutative. Then the same way back.
Schedule ordered_all_reduce(int rank, int size, std::int64_t count);

}  // namespace lockstep
