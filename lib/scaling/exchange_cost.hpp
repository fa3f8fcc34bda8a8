// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "comm/collective/algorithm.hpp"
#include "parallel/config/parallel_config.hpp"
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

enum class Operation { all_reduce, reduce_scatter, all_gather };

/// Costs of a step's sums and gathers over the ranks of a machine. Each size is computed only once.
class Sums {
 public:
  /// `machine` and `config` outlive this. `shares`: whether the ranks of a node have one copy of what they gather, and
  /// so divide sums in their shared memory.
  Sums(const Machine& machine, int ranks, const ParallelConfig& config, bool shares = false);

  /// Cost for `count` elements, which are added as `element_bytes` and travel as `wire_bytes`.
  ExchangeCost of(Operation operation, std::int64_t count, double element_bytes, double wire_bytes);
  /// Cost of a sum of a few bytes of each rank, added in the order of ranks (OrderedReduce): votes and statistics.
  ExchangeCost ordered(double bytes);
  /// Cost of a sum over ranks that own the same part in several groups, without shared memory.
  ExchangeCost between_groups(const Fabric& fabric, std::int64_t count, double element_bytes, double wire_bytes) const;
  /// Cost of a barrier of a node's ranks in shared memory.
  ExchangeCost barrier() const { return {.seconds = 1e-6 * machine_.sum.latency_us, .rounds = 1}; }

  bool one_node() const { return machine_.nodes_of(ranks_) == 1; }

 private:
  ExchangeCost in_nodes(Operation operation, std::int64_t count, double element_bytes, double wire_bytes) const;
  ExchangeCost by_messages(Operation operation, const Algorithm* algorithm, const Fabric& fabric, std::int64_t count,
                           double element_bytes, double wire_bytes) const;
  int per_node() const;

  const Machine& machine_;
  int ranks_;
  const ParallelConfig& config_;
  bool shares_;
  std::map<std::tuple<Operation, std::int64_t, double>, ExchangeCost> known_;  // by operation, count, wire bytes
  std::map<double, ExchangeCost> known_ordered_;
  mutable std::map<std::tuple<int, std::int64_t, double>, ExchangeCost> known_between_;  // by ranks, count, wire bytes
};

/// Sums for any number of a machine's ranks, kept so that steps with the same sums share their costs.
class SumsOfRanks {
 public:
  /// Both arguments outlive this.
  SumsOfRanks(const Machine& machine, const ParallelConfig& config) : machine_(machine), config_(config) {}
  Sums& of(int ranks, bool shares) {
    return sums_.try_emplace({ranks, shares}, machine_, ranks, config_, shares).first->second;
  }

 private:
  const Machine& machine_;
  const ParallelConfig& config_;
  std::map<std::pair<int, bool>, Sums> sums_;
};

}  // namespace lockstep
