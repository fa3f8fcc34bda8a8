// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <tuple>

#include "parallel/config/parallel_config.hpp"
#include "scaling/replay.hpp"

namespace lockstep {

enum class Operation { all_reduce, reduce_scatter, all_gather };

/// The sums and gathers of a step over the ranks of a machine, one after the other; each size is worked out once.
class Sums {
 public:
  /// `machine` and `config` outlive it. `shares`: whether a node's ranks have in common what they gather, and so divide
  /// sums in their memory.
  Sums(const Machine& machine, int ranks, const ParallelConfig& config, bool shares = false);

  /// Of `count` elements, which are added as `element_bytes` and travel as `wire_bytes`.
  ExchangeCost of(Operation operation, std::int64_t count, double element_bytes, double wire_bytes);
  /// The sum of a few bytes of each rank, added in the order of ranks (OrderedReduce): votes, and statistics.
  ExchangeCost ordered(double bytes);
  /// Of ranks that own the same in several groups, without any memory that they share.
  ExchangeCost between_groups(const Fabric& fabric, std::int64_t count, double element_bytes, double wire_bytes) const;
  /// A node's ranks wait for each other in their memory.
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
  std::map<std::tuple<Operation, std::int64_t, double>, ExchangeCost> known_;  // by count and bytes on the wire
  std::map<double, ExchangeCost> known_ordered_;
  mutable std::map<std::tuple<int, std::int64_t, double>, ExchangeCost> known_between_;  // by groups, count and bytes
};

/// Those of any number of a machine's ranks, worked out once for all steps that have the same.
class SumsOfRanks {
 public:
  /// Both outlive it.
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
