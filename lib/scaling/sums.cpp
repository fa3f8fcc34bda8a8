// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/sums.hpp"

#include <algorithm>

#include "comm/collective/fastest.hpp"

namespace lockstep {
namespace {

/// Stages of a sum in a node's memory (node_all_reduce.cpp), after each of which ranks wait for each other.
constexpr std::int64_t stages = 3;

constexpr Scheduler Algorithm::* schedulers[] = {&Algorithm::all_reduce, &Algorithm::reduce_scatter,
                                                 &Algorithm::all_gather};

Scheduler scheduler(Operation operation, const Algorithm& algorithm) {
  return algorithm.*schedulers[static_cast<std::size_t>(operation)];
}

}  // namespace

Sums::Sums(const Machine& machine, int ranks, const ParallelConfig& config, bool shares)
    : machine_(machine), ranks_(ranks), config_(config), shares_(shares) {}

int Sums::per_node() const { return static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, ranks_)); }

ExchangeCost Sums::of(Operation operation, std::int64_t count, double element_bytes, double wire_bytes) {
  if (ranks_ == 1 || count == 0) return {};
  const auto [found, is_new] = known_.try_emplace({operation, count, wire_bytes});
  if (!is_new) return found->second;
  const Algorithm* const algorithm = config_.sums.all_reduce;
  const bool in_memory = sums_in_node_memory(algorithm) && (shares_ || operation == Operation::all_reduce);
  // Schedules of MPI and NCCL are unknown; they are assumed to be as fast as the fastest algorithm here.
  found->second = in_memory
                      ? in_nodes(operation, count, element_bytes, wire_bytes)
                      : by_messages(operation, algorithm && scheduler(operation, *algorithm) ? algorithm : nullptr,
                                    {machine_, ranks_, per_node()}, count, element_bytes, wire_bytes);
  return found->second;
}

ExchangeCost Sums::ordered(double bytes) {
  if (ranks_ == 1) return {};
  if (one_node()) return barrier();
  const auto [found, is_new] = known_ordered_.try_emplace(bytes);
  if (is_new) found->second = replay(ordered_all_reduce, {machine_, ranks_, per_node()}, 1, bytes, bytes);
  return found->second;
}

/// As in node_all_reduce.hpp: a sum reads each rank's elements once and writes as many; a divided sum writes only each
/// rank's part; gathered elements are in place already.
ExchangeCost Sums::in_nodes(Operation operation, std::int64_t count, double element_bytes, double wire_bytes) const {
  ExchangeCost cost = barrier();
  if (operation != Operation::all_gather) {
    const double moved = operation == Operation::all_reduce ? 1 : 0.5 + 0.5 / per_node();
    cost.adding = moved * static_cast<double>(count) * element_bytes * 1e-9 / machine_.sum.bandwidth_gbps;
    cost.seconds += cost.adding;
    cost.rounds = stages;
  }
  if (one_node()) return cost;
  const auto nodes = static_cast<int>(machine_.nodes_of(ranks_));
  const auto in_the_last = static_cast<int>(ranks_ - (nodes - 1) * machine_.ranks_per_node);
  const int leaders = leaders_of(config_.sums.leaders, in_the_last);
  ExchangeCost between = by_messages(operation, config_.sums.between_nodes, {machine_, nodes, 1, leaders},
                                     (count + leaders - 1) / leaders, element_bytes, wire_bytes);
  const double of_ranks = static_cast<double>(nodes * leaders) / ranks_;
  between.bytes *= of_ranks, between.messages *= of_ranks;
  return cost + between;
}

ExchangeCost Sums::between_groups(const Fabric& fabric, std::int64_t count, double element_bytes,
                                  double wire_bytes) const {
  if (fabric.ranks == 1 || count == 0) return {};
  const Algorithm* const algorithm = sums_in_node_memory(config_.sums.all_reduce) ? config_.sums.between_nodes
                                                                                  : config_.sums.all_reduce;
  const auto [found, is_new] = known_between_.try_emplace({fabric.ranks, count, wire_bytes});
  if (is_new)
    found->second = by_messages(Operation::all_reduce, algorithm && algorithm->all_reduce ? algorithm : nullptr, fabric,
                                count, element_bytes, wire_bytes);
  return found->second;
}

ExchangeCost Sums::by_messages(Operation operation, const Algorithm* algorithm, const Fabric& fabric,
                               std::int64_t count, double element_bytes, double wire_bytes) const {
  if (!algorithm) {
    const auto rows = fastest_by_messages(fabric.ranks);
    algorithm = std::ranges::lower_bound(rows, static_cast<std::int64_t>(static_cast<double>(count) * element_bytes),
                                         {}, &AllReduceRow::up_to)
                    ->algorithm;
  }
  return replay(scheduler(operation, *algorithm), fabric, count, element_bytes, wire_bytes);
}

}  // namespace lockstep
