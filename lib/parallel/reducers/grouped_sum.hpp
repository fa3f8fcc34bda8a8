// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collective/make_all_reduce.hpp"
#include "parallel/shard_groups.hpp"

namespace lockstep {

// Sums of ranks that divide them within groups, if at all. `memory`: of the group's ranks on this node; other arguments
// are those of make_all_reduce. Collective.

/// The sum over ranks that own the same, one of each group; there are several.
std::unique_ptr<Collective> make_sum_between_groups(SumOptions options, const ShardGroups& groups,
                                                    const ReduceBuffer& buffer);
/// The sum over all ranks, of which each has what it owns.
std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const ShardGroups& groups,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer);
/// The sum over all ranks, of which each has all.
std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer);

}  // namespace lockstep
