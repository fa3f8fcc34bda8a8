// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Which ranks share memory with each other.
struct Topology {
  /// `ranks_per_node`: ranks of one machine are taken for nodes of so many; 0: nodes are what they are. Collective.
  Topology(const Communicator& ranks, std::int64_t ranks_per_node);

  bool one_node() const { return nodes == 1; }

  Communicator all;
  Communicator node;         ///< of this rank
  std::vector<int> node_of;  ///< of each rank, numbered by their first ranks
  int nodes = 1;
  int smallest = 1;  ///< ranks of the smallest node
};

}  // namespace lockstep
