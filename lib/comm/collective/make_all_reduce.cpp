// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/make_all_reduce.hpp"

#include "comm/collective/by_size.hpp"

namespace lockstep {

namespace {

AllReduceParts parts_of(const ParallelConfig& config, const Topology& topology, const std::optional<NodeMemory>& memory,
                        const ReduceBuffer& buffer) {
  constexpr DType wires[] = {DType::f32, DType::bf16, DType::f16};
  return {topology, memory, buffer, wires[static_cast<std::size_t>(config.wire)], config.between_nodes, config.leaders};
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

std::unique_ptr<Collective> make_reduce_scatter(const ParallelConfig& config, const Topology& topology,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer) {
  return reduce_scatter(config.all_reduce, parts_of(config, topology, memory, buffer));
}

std::unique_ptr<Collective> make_all_gather(const ParallelConfig& config, const Topology& topology,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer) {
  AllReduceParts parts = parts_of(config, topology, flags, buffer);
  parts.wire = DType::f32;
  return all_gather(config.all_reduce, parts);
}

ShardPlace make_shard_place(const ParallelConfig& config, const Topology& topology,
                            const std::optional<NodeMemory>& memory) {
  return shard_place(config.all_reduce, parts_of(config, topology, memory, {}));
}

}  // namespace lockstep
