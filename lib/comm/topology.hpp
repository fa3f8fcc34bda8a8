// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Which ranks share memory with each other.
struct Topology {
  /// Nodes are what the communicator's network says. Collective.
  explicit Topology(const Communicator& ranks);
  /// The topology of some of these ranks, on the same nodes. Collective over `group`.
  Topology of(const Communicator& group) const;

  bool one_node() const { return nodes == 1; }

  Communicator all;
  Communicator node;         ///< of this rank
  std::vector<int> node_of;  ///< of each rank, numbered by their first ranks
  int nodes = 1;
  int smallest = 1;  ///< ranks of the smallest node

 private:
  Topology(const Communicator& ranks, Communicator node_of_this_rank);
};

}  // namespace lockstep
