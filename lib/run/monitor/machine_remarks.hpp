// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/topology.hpp"

namespace lockstep {

/// Returns warnings on rank 0 if ranks have more threads than processors: by their affinity, or by the quota of their
/// cgroup. Collective.
std::vector<std::string> processor_remarks(const Topology& ranks);

/// Warns if the ranks of this node, which each need so many bytes, need more than it has. Call before they allocate it.
void warn_of_memory(const Topology& ranks, double bytes);

}  // namespace lockstep
