// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/shard_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "base/error.hpp"

namespace lockstep {
namespace {

/// Returns the group size that the deck asks for, if the run divides anything; else that of one group.
NumberOrWord wanted(const ParallelConfig& config) {
  return config.sharding.divides() ? config.sharding.shard_group : NumberOrWord{};
}

/// The number of this rank's group.
int group_of(const NumberOrWord& group, const Topology& ranks) {
  const int rank = ranks.all.rank();
  if (group.number) return static_cast<int>(rank / *group.number);
  return group.word == ShardConfig::node ? ranks.node_of[static_cast<std::size_t>(rank)] : 0;
}

void check_size(const NumberOrWord& group, int ranks) {
  validate_key(!group.number || ranks % *group.number == 0, "parallel.shard_group",
               "{} ranks cannot be divided into groups of {}; give a divisor of the number of ranks", ranks,
               group.number.value_or(0));
}

constexpr const char* placed_differently =
    "the nodes of this job have different numbers of ranks, or groups are placed on them differently, so ranks in the "
    "same place would own different parts; start the same number of ranks on each node, in groups that fill nodes or "
    "divide them evenly";

/// Checks that groups lie on their nodes in the same way, so that ranks of the same place own the same.
void check_alike(const Topology& ranks, const Topology& group) {
  std::string shape = fmt::format("{}", fmt::join(group.node_of, " ")), first = shape;
  ranks.all.broadcast(first, 0);
  validate_key(ranks.all.every_rank(shape == first), "parallel.shard_group", "{}", placed_differently);
}

}  // namespace

ShardGroups::ShardGroups(const ParallelConfig& config, const Topology& all)
    : ranks(all),
      group(all.of(all.all.split(group_of(wanted(config), all)))),
      replicas(all.of(all.all.split(group.all.rank()))) {
  check_size(wanted(config), all.all.size());
  check_alike(ranks, group);
}

void check_shard_groups(const ParallelConfig& config, int ranks, int nodes) {
  const int group = shard_group_size(config, ranks, nodes), of_node = ranks / nodes;
  const bool fills = group % of_node == 0 || of_node % group == 0;
  validate_key(ranks % nodes != 0 || fills, "parallel.shard_group", "{}", placed_differently);
}

int shard_group_size(const ParallelConfig& config, int ranks, int nodes) {
  const NumberOrWord group = wanted(config);
  check_size(group, ranks);
  if (group.number) return static_cast<int>(*group.number);
  return group.word == ShardConfig::node ? ranks / nodes : ranks;
}

}  // namespace lockstep
