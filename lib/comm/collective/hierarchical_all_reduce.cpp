// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <bit>
#include <limits>

#include "comm/collective/algorithm.hpp"
#include "comm/collective/by_size.hpp"
#include "comm/collective/node_all_reduce.hpp"

namespace lockstep {
namespace {

/// Messages of a ring that is worth its many of them.
constexpr std::int64_t ring_message_bytes = 64 * 1024;
/// More leaders than this do not make a network faster.
constexpr int most_leaders = 4;

/// The fastest by messages.
std::unique_ptr<Collective> by_messages(const Communicator& ranks, const AllReduceParts& parts) {
  const auto make = [&](std::string_view name) {
    return all_reduce(*find_algorithm(name), make_transport(ranks), parts.buffer, parts.wire);
  };
  // Both move the same bytes, a ring in more messages; but of ranks that are no power of two, some send theirs twice.
  auto by_halves = make("halving_doubling");
  if (std::has_single_bit(static_cast<unsigned>(ranks.size()))) return by_halves;
  const std::int64_t few = ring_message_bytes * ranks.size() / static_cast<std::int64_t>(size_of(parts.buffer.dtype));
  return std::make_unique<BySize>(
      std::vector<BySize::Way>{{few, std::move(by_halves)}, {std::numeric_limits<std::int64_t>::max(), make("ring")}});
}

}  // namespace

std::unique_ptr<Collective> hierarchical_all_reduce(const AllReduceParts& parts) {
  const Topology& topology = parts.topology;
  if (!parts.memory) return by_messages(topology.all, parts);
  const DType dtype = parts.buffer.dtype;
  if (topology.one_node()) return node_all_reduce(*parts.memory, dtype, 0, nullptr);
  const int leaders = static_cast<int>(std::min<std::int64_t>(parts.leaders.value_or(most_leaders), topology.smallest));
  // The leaders of one number, and all others, who have nothing to say to each other.
  const Communicator number = topology.all.split(std::min(topology.node.rank(), leaders));
  if (topology.node.rank() >= leaders) return node_all_reduce(*parts.memory, dtype, leaders, nullptr);
  return node_all_reduce(*parts.memory, dtype, leaders,
                         parts.between_nodes
                             ? all_reduce(*parts.between_nodes, make_transport(number), parts.buffer, parts.wire)
                             : by_messages(number, parts));
}

std::unique_ptr<Collective> fastest_all_reduce(const AllReduceParts& parts) { return hierarchical_all_reduce(parts); }

}  // namespace lockstep
