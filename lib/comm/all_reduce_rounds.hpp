// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// What one rank does in one round of an all-reduce: it sends elements to one rank while it receives others from
/// another. The next round begins when both are done.
struct Round {
  struct Part {
    int peer = -1;  ///< none
    std::int64_t first = 0, count = 0;
    bool final = false;  ///< sums over all ranks, which replace what the receiver has; else they are added to it

    explicit operator bool() const { return peer >= 0 && count > 0; }
  };
  Part send, receive;
};

// The rounds of one rank of `size` for `count` elements. In each, one rank alone adds up an element's last sum, and all
// others get copies: so all have the same bits. Names and costs: Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005.

/// Slices go round and are added up, and then go round again: 2 (P − 1) messages of count / P, the fewest bytes of all.
std::vector<Round> ring_rounds(int rank, int size, std::int64_t count);
/// Halves, quarters, … are exchanged with ever nearer ranks and added up, and then exchanged the other way: 2 log₂ P
/// messages, and as few bytes as the ring. Ranks beyond a power of two hand theirs over first, and get the sum last.
std::vector<Round> halving_doubling_rounds(int rank, int size, std::int64_t count);
/// Up a binary tree and down again, in segments that follow each other: 2 log₂ P latencies.
std::vector<Round> tree_rounds(int rank, int size, std::int64_t count);

}  // namespace lockstep
