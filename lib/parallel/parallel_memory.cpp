// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/parallel_memory.hpp"

#include <fmt/format.h>

#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/collective/algorithm.hpp"
#include "config/deck.hpp"
#include "core/memory_plan.hpp"

namespace lockstep {
namespace {

/// Checks that ranks plan the same windows: units travel in the order in which ranks' layers use them.
void check_same_windows(const Communicator& ranks, const UnshardPlan& windows) {
  std::string plan;
  for (const UnshardPlan::Pass* pass : {&windows.forward, &windows.backward})
    for (const std::size_t unit : pass->order) plan += fmt::format("{} ", unit);
  for (const std::vector<std::int64_t>* places : {&windows.value_places.of_units, &windows.gradient_places.of_units})
    for (const std::int64_t place : *places) plan += fmt::format("{} ", place);
  std::string first = plan;
  ranks.broadcast(first, 0);
  if (!ranks.every_rank(plan == first))
    throw SharedError(ExitStatus::bad_usage,
                      "parallel.shard: ranks plan the step differently, so their layers would wait for different "
                      "parameters (do they run with different numbers of threads?); give all the same number");
}

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

/// Bytes of the values, which their 16-bit copy follows.
std::size_t value_bytes(const UnshardPlan& windows, const ParameterLayout& layout) {
  return align_up(bytes_of(windows.value_count(layout), layout.master()));
}
std::size_t rounded_bytes(const UnshardPlan& windows, const ParameterLayout& layout, DType dtype) {
  return dtype == layout.master() ? 0 : bytes_of(windows.value_count(layout), dtype);
}
std::size_t gradient_bytes(const UnshardPlan& windows, const ParameterLayout& layout) {
  return bytes_of(windows.gradient_count(layout), layout.master());
}

}  // namespace

DeviceSums choose_device_sums(const ParallelConfig& config, const DeviceFacts& facts) {
  using Path = DeviceSums::Path;
  if (config.tree_leaves() > 0) return {};
  validate_key(!config.compress.present || !facts.all_have_devices, "parallel.compress",
               "gradients are compressed in host memory, but kernels run on devices here; leave it out");
  if (config.sums.all_reduce && config.sums.all_reduce->in_device_memory) {
    const char* const key = "parallel.all_reduce";
    validate_key(facts.has_nccl, key,
                 "nccl is not in this build; choose auto, or build for devices with NCCL or RCCL (`lockstep info` "
                 "shows what a build has)");
    validate_key(facts.all_have_devices, key, "nccl sums between devices, but kernels run on hosts here; choose auto");
    validate_key(facts.shared.empty(), key, "nccl needs a device for each rank, but {}, or choose auto", facts.shared);
    validate_key(!facts.emulates_network, key,
                 "nccl cannot be combined with --emulate-network (it sends its messages itself); choose auto, or "
                 "leave --emulate-network out");
    return {facts.ranks == 1 ? Path::on_hosts : Path::nccl, ""};
  }
  if (facts.ranks == 1 || !facts.all_have_devices || facts.emulates_network) return {};
  if (config.sums.all_reduce) return {config.sums.all_reduce->by_library ? Path::mpi : Path::on_hosts, ""};
  const bool divides = config.sharding.divides();
  if (divides || !config.sums.all_reduce_table.empty() || !facts.has_nccl) return {};
  if (facts.shared.empty()) return {Path::nccl, ""};
  return {Path::on_hosts, "gradients are summed on the hosts, because nccl needs a device for each rank"};
}

std::optional<NodeMemory> gradient_memory(const ParallelConfig& config, const Communicator& all,
                                          const Communicator& node, std::size_t bytes) {
  if (!sums_in_node_memory(config.sums.all_reduce) || all.size() == 1) return std::nullopt;
  std::optional<NodeMemory> memory = NodeMemory::make(node, bytes);
  // If one node has none, no node uses any: all ranks must sum in the same way.
  if (all.every_rank(memory.has_value())) return memory;
  if (all.is_root())
    warn(
        "a node's ranks cannot share {} bytes of memory each; gradients are sent in messages instead, which takes "
        "longer (is /dev/shm large enough?)",
        bytes);
  return std::nullopt;
}

ParameterDivision parameter_division(const ParallelConfig& config, int group, bool shares) {
  const bool elsewhere = config.offloads_parameters();
  // Fixed trees add up whole gradients.
  return {.gradients = group > 1 && config.sharding.shard >= Shard::gradients && !config.deterministic.present,
          .values = elsewhere || (group > 1 && config.sharding.shard >= Shard::parameters && !shares),
          .values_elsewhere = elsewhere,
          .unit_mb = config.sharding.unit_mb,
          .prefetch = config.sharding.prefetch};
}

bool may_share_parameters(const ParallelConfig& config) {
  return config.sharding.share_parameters && config.tree_leaves() == 0 && !memory_is_separate &&
         sums_in_node_memory(config.sums.all_reduce);
}

ParallelMemory parallel_memory(const ParallelConfig& config, const ShardGroups& groups, const Graph& graph,
                               const ExecutionPlan& plan, DType dtype) {
  const ParameterLayout layout(graph.layer_specs(), dtype);
  const auto windows = [&](bool shares) {
    return plan_windows(graph, layout, plan, parameter_division(config, groups.group.all.size(), shares));
  };
  ParallelMemory memory{.windows = windows(false)};
  const ParameterDivision& division = memory.windows.division;
  if (division.gradients || division.values) check_same_windows(groups.ranks.all, memory.windows);
  const bool divides = config.sharding.divides(), shares = divides && may_share_parameters(config);
  // Ranks own the same parts in sums as in gathers: both use the node's memory, or neither does.
  if (config.tree_leaves() > 0 || (divides && !shares)) return memory;
  memory.gradients = gradient_memory(config, groups.ranks.all, groups.group.node,
                                     gradient_bytes(memory.windows, layout));
  if (!shares || !memory.gradients) return memory;
  UnshardPlan shared = windows(groups.group.one_node());
  const std::size_t bytes = value_bytes(shared, layout) + rounded_bytes(shared, layout, dtype);
  memory.parameters = node_block(groups.group.node, bytes);
  memory.flags = NodeMemory::make(groups.group.node, 0);
  if (groups.ranks.all.every_rank(memory.parameters && memory.flags)) {
    memory.windows = std::move(shared);
    return memory;
  }
  if (groups.ranks.all.is_root())
    warn(
        "a node's ranks cannot share {} bytes of memory; each has {} of its own, and gets the others' parts in "
        "messages, which takes longer (is /dev/shm large enough?)",
        bytes, memory.windows.division.values ? "windows for parameters" : "a copy of the parameters");
  return {.windows = std::move(memory.windows)};
}

ParameterMemory ParallelMemory::of_buffers(const ParameterLayout& layout, DType dtype, int rank_in_node) const {
  ParameterMemory memory;
  if (memory_is_separate) return memory;
  if (gradients) memory.gradients = Buffer::borrow(gradients->part(rank_in_node), gradient_bytes(windows, layout));
  if (!parameters) return memory;
  memory.values = Buffer::borrow(parameters.get(), value_bytes(windows, layout));
  memory.updates_statistics = rank_in_node == 0;
  if (const std::size_t bytes = rounded_bytes(windows, layout, dtype); bytes > 0)
    memory.rounded = Buffer::borrow(parameters.get() + value_bytes(windows, layout), bytes);
  return memory;
}

}  // namespace lockstep
