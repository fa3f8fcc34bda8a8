// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/topology.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// Who divides a model with whom (parallel.shard_group): every group has all of it, and in each group one rank owns
/// what this rank owns here. Hybrid sharding; Zhang et al. 2022, "MiCS".
struct ShardGroups {
  /// Throws KeyError (parallel.shard_group), on all ranks, where these, or the nodes that they are on, cannot be
  /// divided as the deck wants it. Collective.
  ShardGroups(const ParallelConfig& config, const Topology& all);

  int count() const { return replicas.all.size(); }
  bool of_first_group() const { return replicas.all.is_root(); }

  Topology ranks;     ///< all
  Topology group;     ///< those of this one
  Topology replicas;  ///< of each group, the rank that owns the same
};

/// Ranks of each group, of so many on nodes of as many each. Throws KeyError (parallel.shard_group) where they cannot
/// be divided so.
int shard_group_size(const ParallelConfig& config, int ranks, int nodes);

}  // namespace lockstep
