// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "comm/collective/algorithm.hpp"
#include "scaling/machine.hpp"

namespace lockstep {

/// Ranks of a machine that send each other messages: where each is, and what messages cost.
struct Fabric {
  const Machine& machine;
  int ranks = 1;
  int per_node = 1;   ///< consecutive ranks of this group on a node
  int at_a_time = 1;  ///< number of groups like this one that use the network at the same time, on the same nodes
};

/// Cost of a sum or a gather that all ranks begin together and nothing delays.
struct ExchangeCost {
  double seconds = 0;
  double adding = 0;               ///< part of `seconds` in which a core adds
  std::int64_t rounds = 0;         ///< consecutive rounds of messages, after each of which a rank has to look for the
                                   ///< next
  double bytes = 0, messages = 0;  ///< what a rank sends, on average

  ExchangeCost operator+(const ExchangeCost& other) const {
    return {seconds + other.seconds, adding + other.adding, rounds + other.rounds, bytes + other.bytes,
            messages + other.messages};
  }
  /// Cost of so many exchanges, one after the other.
  ExchangeCost operator*(double times) const {
    return {seconds * times, adding * times, static_cast<std::int64_t>(static_cast<double>(rounds) * times),
            bytes * times, messages * times};
  }
};

/// Replays the algorithm's real schedules for `count` elements, which are added as `element_bytes` and travel as
/// `wire_bytes`. If all ranks do the same in every round, the ranks of one node stand for all; otherwise every rank is
/// followed. What a rank sends on average comes from some of the ranks.
ExchangeCost replay(Scheduler schedule, const Fabric& fabric, std::int64_t count, double element_bytes,
                    double wire_bytes);

}  // namespace lockstep
