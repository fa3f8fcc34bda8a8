// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>

#include "comm/all_reduce.hpp"
#include "comm/node_memory.hpp"
#include "comm/parallel_config.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// The all-reduce that a deck asks for. `memory`: of this node, whose part of this rank begins with the summands; none:
/// nobody shares memory, and hierarchical sums become flat ones. Collective.
std::unique_ptr<AllReduce> make_all_reduce(const ParallelConfig& config, const Topology& topology,
                                           const std::optional<NodeMemory>& memory, const Summands& summands);

}  // namespace lockstep
