// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/topology.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// The groups of ranks among which a model is divided (parallel.shard_group). Each group has the whole model, and each
/// rank's part has one owner in every group: hybrid sharding, as in Zhang et al. 2022, "MiCS".
struct ShardGroups {
  /// Throws KeyError (parallel.shard_group) on all ranks if the ranks, or the nodes that they are on, cannot be divided
  /// as the deck wants it. Collective.
  ShardGroups(const ParallelConfig& config, const Topology& all);

  int count() const { return replicas.all.size(); }
  bool of_first_group() const { return replicas.all.is_root(); }

  Topology ranks;     ///< all ranks
  Topology group;     ///< the ranks of this rank's group
  Topology replicas;  ///< the rank of each group that owns what this rank owns
};

/// Returns the number of ranks in each group, for `ranks` ranks on `nodes` nodes with equally many each. Throws
/// KeyError (parallel.shard_group) if they cannot be divided so.
int shard_group_size(const ParallelConfig& config, int ranks, int nodes);
/// Throws KeyError (parallel.shard_group) if ShardGroups would refuse `ranks` ranks on `nodes` nodes with equally many
/// each.
void check_shard_groups(const ParallelConfig& config, int ranks, int nodes);

}  // namespace lockstep
