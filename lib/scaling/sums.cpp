// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/sums.hpp"

#include <algorithm>

#include "comm/collective/fastest.hpp"

namespace lockstep {
namespace {

/// Stages of a sum in a node's memory (node_all_reduce.cpp), after each of which ranks look for each other.
constexpr std::int64_t stages = 3;

}  // namespace

Sums::Sums(const Machine& machine, int ranks, const ParallelConfig& config)
    : machine_(machine), ranks_(ranks), config_(config) {}

SumTime Sums::of(std::int64_t count, double element_bytes, double wire_bytes) {
  if (ranks_ == 1 || count == 0) return {};
  const auto [found, is_new] = known_.try_emplace({count, wire_bytes});
  if (!is_new) return found->second;
  const Algorithm* const algorithm = config_.all_reduce;
  if (!algorithm || algorithm->in_node_memory) {
    found->second = hierarchical(count, element_bytes, wire_bytes);
  } else {
    // Those of MPI and NCCL cannot be replayed: they are taken to be as fast as the fastest of ours.
    const int per_node = static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, ranks_));
    found->second = by_messages(algorithm->all_reduce ? algorithm : nullptr, {machine_, ranks_, per_node}, count,
                                element_bytes, wire_bytes);
  }
  return found->second;
}

SumTime Sums::ordered(double bytes) {
  if (ranks_ == 1) return {};
  if (one_node()) return {.seconds = 1e-6 * machine_.sum.latency_us, .rounds = 1};
  const int per_node = static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, ranks_));
  const auto [found, is_new] = known_ordered_.try_emplace(bytes);
  if (is_new) found->second = replay(ordered_all_reduce, {machine_, ranks_, per_node}, 1, bytes, bytes);
  return found->second;
}

/// As hierarchical_all_reduce does it.
SumTime Sums::hierarchical(std::int64_t count, double element_bytes, double wire_bytes) const {
  const double adding = static_cast<double>(count) * element_bytes * 1e-9 / machine_.sum.bandwidth_gbps;
  const SumTime in_node{1e-6 * machine_.sum.latency_us + adding, adding, stages};
  if (one_node()) return in_node;
  const auto nodes = static_cast<int>(machine_.nodes_of(ranks_));
  const auto in_the_last = static_cast<int>(ranks_ - (nodes - 1) * machine_.ranks_per_node);
  const int leaders = leaders_of(config_.leaders, in_the_last);
  return in_node + by_messages(config_.between_nodes, {machine_, nodes, 1, leaders}, (count + leaders - 1) / leaders,
                               element_bytes, wire_bytes);
}

SumTime Sums::by_messages(const Algorithm* algorithm, const Fabric& fabric, std::int64_t count, double element_bytes,
                          double wire_bytes) const {
  if (!algorithm) {
    const auto rows = fastest_by_messages(fabric.ranks);
    algorithm = std::ranges::lower_bound(rows, static_cast<std::int64_t>(static_cast<double>(count) * element_bytes),
                                         {}, &AllReduceRow::up_to)
                    ->algorithm;
  }
  return replay(algorithm->all_reduce, fabric, count, element_bytes, wire_bytes);
}

}  // namespace lockstep
