// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/by_size.hpp"
#include "comm/collective/fastest.hpp"
#include "comm/collective/node_all_reduce.hpp"

namespace lockstep {
namespace {

/// The fastest by messages.
std::unique_ptr<Collective> by_messages(const Communicator& ranks, const AllReduceParts& parts) {
  std::vector<BySize::Way> ways;
  for (const AllReduceRow& row : fastest_by_messages(ranks.size()))
    ways.push_back({row.up_to / static_cast<std::int64_t>(size_of(parts.buffer.dtype)),
                    all_reduce(*row.algorithm, make_transport(ranks), parts.buffer, parts.wire)});
  return std::make_unique<BySize>(std::move(ways));
}

}  // namespace

std::unique_ptr<Collective> hierarchical_all_reduce(const AllReduceParts& parts) {
  const Topology& topology = parts.topology;
  if (!parts.memory) return by_messages(topology.all, parts);
  const DType dtype = parts.buffer.dtype;
  if (topology.one_node()) return node_all_reduce(*parts.memory, dtype, 0, nullptr);
  const int leaders = leaders_of(parts.leaders, topology.smallest);
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
