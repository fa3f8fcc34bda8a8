// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/make_all_reduce.hpp"

#include "comm/collective/by_size.hpp"
#include "comm/collective/grouped_sum.hpp"

namespace lockstep {

namespace {

AllReduceParts parts_of(const ParallelConfig& config, const Topology& topology, const std::optional<NodeMemory>& memory,
                        const ReduceBuffer& buffer) {
  constexpr DType wires[] = {DType::f32, DType::bf16, DType::f16};
  return {topology, memory, buffer, wires[static_cast<std::size_t>(config.wire)], config.between_nodes, config.leaders};
}

/// A group's sum, of which this rank has what `place` says, and then that of all groups.
std::unique_ptr<Collective> with_other_groups(const ParallelConfig& config, const ShardGroups& groups,
                                              const ReduceBuffer& buffer, std::unique_ptr<Collective> in_group,
                                              const ShardPlace& place) {
  if (groups.count() == 1) return in_group;
  return std::make_unique<GroupedSum>(std::move(in_group), place, make_sum_between_groups(config, groups, buffer));
}

}  // namespace

std::unique_ptr<Collective> make_all_reduce(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer) {
  const AllReduceParts parts = parts_of(config, topology, memory, buffer);
  if (config.all_reduce) return all_reduce(*config.all_reduce, parts);
  if (measured.empty()) return fastest_all_reduce(parts);
  std::vector<BySize::Way> ways;
  for (const AllReduceRow& row : measured)
    ways.push_back({row.up_to / static_cast<std::int64_t>(size_of(buffer.dtype)), all_reduce(*row.algorithm, parts)});
  return std::make_unique<BySize>(std::move(ways));
}

std::unique_ptr<Collective> make_sum_between_groups(ParallelConfig config, const ShardGroups& groups,
                                                    const ReduceBuffer& buffer) {
  // What is between groups is between nodes, or between ranks that sum by messages.
  if (!config.all_reduce || config.all_reduce->in_node_memory) config.all_reduce = config.between_nodes;
  return make_all_reduce(config, {}, groups.replicas, std::nullopt, buffer);
}

ShardPlace make_shard_place(const ParallelConfig& config, const Topology& group,
                            const std::optional<NodeMemory>& memory) {
  return shard_place(config.all_reduce, parts_of(config, group, memory, {}));
}

std::unique_ptr<Collective> make_reduce_scatter(const ParallelConfig& config, const Topology& group,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer) {
  return reduce_scatter(config.all_reduce, parts_of(config, group, memory, buffer));
}

std::unique_ptr<Collective> make_reduce_scatter(const ParallelConfig& config, const ShardGroups& groups,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer) {
  return with_other_groups(config, groups, buffer, make_reduce_scatter(config, groups.group, memory, buffer),
                           make_shard_place(config, groups.group, memory));
}

std::unique_ptr<Collective> make_all_reduce(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                            const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer) {
  return with_other_groups(config, groups, buffer, make_all_reduce(config, measured, groups.group, memory, buffer), {});
}

std::unique_ptr<Collective> make_all_gather(const ParallelConfig& config, const Topology& group,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer) {
  AllReduceParts parts = parts_of(config, group, flags, buffer);
  parts.wire = DType::f32;
  return all_gather(config.all_reduce, parts);
}

}  // namespace lockstep
