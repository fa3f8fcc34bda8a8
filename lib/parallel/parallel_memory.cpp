// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/parallel_memory.hpp"

#include "base/log.hpp"
#include "core/memory_plan.hpp"

namespace lockstep {
namespace {

std::size_t value_bytes(const ParameterLayout& layout, DType dtype) {
  return align_up(static_cast<std::size_t>(layout.size()) * size_of(master_dtype(dtype)));
}
std::size_t rounded_bytes(const ParameterLayout& layout, DType dtype) {
  return dtype == master_dtype(dtype) ? 0 : static_cast<std::size_t>(layout.size()) * size_of(dtype);
}

}  // namespace

std::optional<NodeMemory> gradient_memory(const ParallelConfig& config, const Topology& topology, std::size_t bytes) {
  const bool wanted = !config.all_reduce || config.all_reduce->in_node_memory;
  if (!wanted || topology.all.size() == 1) return std::nullopt;
  std::optional<NodeMemory> memory = NodeMemory::make(topology.node, bytes);
  // Where one node has none, nobody uses any: all ranks must sum in the same way.
  if (topology.all.all_reduce_max(memory ? 0 : 1) == 0) return memory;
  if (topology.all.is_root())
    warn(
        "a node's ranks cannot share {} bytes of memory each; gradients are sent in messages instead, which takes "
        "longer (is /dev/shm large enough?)",
        bytes);
  return std::nullopt;
}

ParallelMemory parallel_memory(const ParallelConfig& config, const Topology& topology, const ParameterLayout& layout,
                               DType dtype) {
  ParallelMemory memory;
  const bool shares = config.shard != ParallelConfig::Shard::none && config.share_parameters && !memory_is_separate;
  // What is gathered in a node's memory is owned as its sums are.
  if (config.shard != ParallelConfig::Shard::none && !shares) return memory;
  memory.gradients = gradient_memory(config, topology, layout.gradient_bytes());
  if (!shares || !memory.gradients) return memory;
  const std::size_t bytes = value_bytes(layout, dtype) + rounded_bytes(layout, dtype);
  memory.parameters = node_block(topology.node, bytes);
  memory.flags = NodeMemory::make(topology.node, 0);
  if (topology.all.all_reduce_max(memory.parameters && memory.flags ? 0 : 1) == 0) return memory;
  if (topology.all.is_root())
    warn(
        "a node's ranks cannot share {} bytes of memory; each has a copy of the parameters, and gets the others' parts "
        "in messages, which takes longer (is /dev/shm large enough?)",
        bytes);
  return {};
}

ParameterMemory ParallelMemory::of_buffers(const ParameterLayout& layout, DType dtype, int rank_in_node) const {
  ParameterMemory memory;
  if (memory_is_separate) return memory;
  if (gradients) memory.gradients = Buffer::borrow(gradients->part(rank_in_node), layout.gradient_bytes());
  if (!parameters) return memory;
  memory.values = Buffer::borrow(parameters.get(), value_bytes(layout, dtype));
  if (const std::size_t bytes = rounded_bytes(layout, dtype); bytes > 0)
    memory.rounded = Buffer::borrow(parameters.get() + value_bytes(layout, dtype), bytes);
  return memory;
}

}  // namespace lockstep
