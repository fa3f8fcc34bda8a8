// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/topology.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>

#include "base/process.hpp"
#include "comm/transport.hpp"

namespace lockstep {

Topology::Topology(const Communicator& ranks)
    : Topology(ranks, ranks.network() ? ranks.network()->node(ranks) : ranks.on_this_node()) {}

Topology Topology::of(const Communicator& group) const {
  return {group, group.split(node_of[static_cast<std::size_t>(all.rank())])};
}

Topology::Topology(const Communicator& ranks, Communicator node_of_this_rank)
    : all(ranks), node(std::move(node_of_this_rank)) {
  // The first rank of a node identifies it.
  const std::int64_t first = node.all_reduce_min(std::int64_t{all.rank()});
  std::map<std::int64_t, int> number, size;
  for (const std::int64_t of_rank : all.all_gather(first)) {
    const int found = number.try_emplace(of_rank, static_cast<int>(number.size())).first->second;
    node_of.push_back(found);
    ++size[found];
  }
  nodes = static_cast<int>(number.size());
  smallest = std::ranges::min_element(size, {}, [](const auto& entry) { return entry.second; })->second;
}

std::vector<std::string> host_names(const Communicator& ranks) {
  std::string text = fmt::format("{}", fmt::join(ranks.gather_to_root(host_name()), "\n"));
  ranks.broadcast(text);
  std::istringstream lines(text);
  std::vector<std::string> names(static_cast<std::size_t>(ranks.size()));
  for (std::string& name : names) std::getline(lines, name);
  return names;
}

}  // namespace lockstep
