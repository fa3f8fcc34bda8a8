// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// The nodes of a communicator: the groups of its ranks that share memory.
struct Topology {
  /// Takes the nodes from the communicator's network. Collective.
  explicit Topology(const Communicator& ranks);
  /// Topology of a group of these ranks, on the same nodes. Collective over `group`.
  Topology of(const Communicator& group) const;

  bool one_node() const { return nodes == 1; }

  Communicator all;
  Communicator node;         ///< ranks of this rank's node
  std::vector<int> node_of;  ///< node number of each rank; nodes are numbered in the order of their first ranks
  int nodes = 1;
  int smallest = 1;  ///< number of ranks of the smallest node

 private:
  Topology(const Communicator& ranks, Communicator node_of_this_rank);
};

/// Returns the names of all ranks' hosts, in rank order, on every rank. Collective.
std::vector<std::string> host_names(const Communicator& ranks);

}  // namespace lockstep
