// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collective/make_all_reduce.hpp"
#include "parallel/shard_groups.hpp"

namespace lockstep {

// Sums over ranks that divide them within groups, or not at all. `memory` is that of the group's ranks on this node;
// other arguments are those of make_all_reduce. Collective.

/// Makes the sum over the ranks that own the same, one of each group. There must be several groups.
std::unique_ptr<Collective> make_sum_between_groups(SumOptions options, const ShardGroups& groups,
                                                    const ReduceBuffer& buffer);
/// Makes the sum over all ranks of which each rank gets what it owns.
std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const ShardGroups& groups,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// Makes the sum over all ranks of which each rank gets all.
std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);

}  // namespace lockstep
