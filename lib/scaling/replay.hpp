// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "comm/collective/algorithm.hpp"
#include "scaling/machine.hpp"

namespace lockstep {

/// Ranks that send each other messages on a machine: where each is, and what its messages cost.
struct Fabric {
  const Machine& machine;
  int ranks = 1;
  int per_node = 1;   ///< of these ranks, one after the other
  int at_a_time = 1;  ///< groups like this one that use the network together, on the same nodes
};

/// What a sum or a gather costs that all ranks begin together and nothing hinders.
struct ExchangeCost {
  double seconds = 0;
  double adding = 0;               ///< of them: a core adds
  std::int64_t rounds = 0;         ///< of messages, one after the other: who has to look for them looks as often
  double bytes = 0, messages = 0;  ///< that a rank sends, in the mean

  ExchangeCost operator+(const ExchangeCost& other) const {
    return {seconds + other.seconds, adding + other.adding, rounds + other.rounds, bytes + other.bytes,
            messages + other.messages};
  }
  /// So many of them, one after the other.
  ExchangeCost operator*(double times) const {
    return {seconds * times, adding * times, static_cast<std::int64_t>(static_cast<double>(rounds) * times),
            bytes * times, messages * times};
  }
};

/// Goes through the steps of the algorithm's real schedules, for `count` elements that are added as `element_bytes`
/// and travel as `wire_bytes`. Where all ranks do the same in every round, those of one node stand for all; else each
/// is looked at. Of many ranks some tell what one sends.
ExchangeCost replay(Scheduler schedule, const Fabric& fabric, std::int64_t count, double element_bytes,
                    double wire_bytes);

}  // namespace lockstep
