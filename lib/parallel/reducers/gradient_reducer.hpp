// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "comm/collective/schedule.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "data/batch/sampler.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/parallel_memory.hpp"
#include "parameters/unshard_plan.hpp"

namespace lockstep {

/// Sums the flat gradient buffer over all ranks. Nothing is averaged: the optimizer divides the sum once, by the number
/// of examples of all ranks.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// Begins this rank's part of a step.
  virtual void begin_step(const BatchPlan& /*batch*/) {}
  /// Call when the elements before `end`, of this rank or of one of its shards, are final.
  virtual void ready(const ExecSpace& space, std::int64_t end) = 0;
  /// Call when all gradients of this rank, or of the shard, are final: those of the next sum may then overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// Waits for all that is left; afterwards every rank holds the same gradients. `meanwhile` is called repeatedly and
  /// must not wait. Collective.
  virtual void finish(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;
  /// In the step's last sum of gradients: number of elements, from the first one on, that are sums already.
  virtual std::int64_t summed() const { return 0; }
  /// Seconds that the step has waited since the last call.
  virtual double take_exposed_seconds() = 0;
};

/// Calls `meanwhile` repeatedly until the kernels that were started before are done. SpinBackoff is not used, because
/// it is for waits for other ranks, and a device that hangs is not one.
template <class Meanwhile>
void outlast_kernels(const ExecSpace& space, Meanwhile meanwhile) {
  const StreamEvent kernels(space);
  while (!kernels.has_happened()) {
    meanwhile();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// Cuts consecutive ranges, of elements of `element_bytes`, into buckets of at most `megabytes`. The first bucket of
/// all and the last one are smaller. Buckets begin and end with blocks (array_block), counted from the first element
/// on, except at the end of a range and where they are smaller than a block.
std::vector<ElementRange> cut_into_buckets(std::span<const ElementRange> ranges, double megabytes,
                                           std::size_t element_bytes);

/// The buckets in which ranks sum the flat buffer of gradients, in the order in which a backward pass makes it final.
struct GradientBuckets {
  std::vector<ElementRange> trained;     ///< no bucket reaches from one unit of the parameters into the next
  std::vector<ElementRange> statistics;  ///< after the trained gradients

  /// If ranks divide the sums, buckets have at least a block, because ranks own whole blocks.
  GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config);
  /// `units` are consecutive, from 0 on. `end` is the end of the statistics.
  GradientBuckets(const std::vector<ElementRange>& units, std::int64_t end, double megabytes,
                  std::size_t element_bytes);
};

/// When layers may write the window of a unit's gradients: once the first `buckets` buckets of this micro-batch, or of
/// the previous one, are summed. Both trained buckets and those of statistics count.
struct WindowTurn {
  int time;  ///< of the first layer that writes the window
  std::size_t buckets;
  bool of_micro_batch_before;
};
/// Returns the turns of windows, if gradients are divided into windows.
std::vector<WindowTurn> window_turns(const UnshardPlan& windows, const GradientBuckets& buckets);

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
