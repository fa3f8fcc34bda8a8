// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/host_memory.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Sums gradients that no rank holds as a whole. The gradients of each micro-batch are summed over a group's ranks,
/// bucket by bucket in their windows, and then added to what their owner has of the micro-batches before
/// (ParameterShard). In the last micro-batch, the sums of those before are added to the windows, which are then summed
/// between groups.
class ShardedGradientReducer final : public GradientReducer {
 public:
  /// `memory`: see gradient_memory; on hosts, the windows of `parameters` lie in it. `parameters` must outlive this
  /// object. Collective.
  ShardedGradientReducer(const ParallelConfig& config, const ShardGroups& groups,
                         const std::optional<NodeMemory>& memory, const ParameterBuffer& parameters,
                         const GradientBuckets& buckets);

  void begin_step(const BatchPlan& batch) override;
  /// Call before layers of this time run: waits until the windows that they write are free. Collective.
  void enter(const ExecSpace& space, int time);
  void ready(const ExecSpace& space, std::int64_t end) override;
  void gradient_sum_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  std::int64_t summed() const override;
  double take_exposed_seconds() override;

 private:
  struct Bucket {
    ElementRange range;
    Collective* sum;
    std::vector<ElementRange> owned;  ///< owned ranges of the bucket
    Collective* between_groups;       ///< of owned ranges; null: `sum` is already that of all ranks
  };

  void advance(const ExecSpace& space);
  void complete(const ExecSpace& space, std::size_t last, const std::function<void()>& meanwhile);
  void start(const ExecSpace& space, const Bucket& bucket);
  void end_sum(const ExecSpace& space);
  void start_between_groups(const ExecSpace& space, const Bucket& bucket, bool first);
  Tensor from_host(const ExecSpace& space, ElementRange range) const;

  const ParameterBuffer& parameters_;
  bool waits_;                                   ///< whether to wait for each bucket when it is ready
  HostMirror windows_;                           ///< in which gradients are summed
  std::unique_ptr<Collective> sum_, exact_sum_;  ///< of trained gradients, and of those after them
  std::unique_ptr<Collective> between_groups_;   ///< null: there is one group
  std::vector<Bucket> buckets_;
  std::vector<WindowTurn> turns_;
  std::vector<ElementRange> gaps_;  ///< between parameters
  // Numbers of buckets in the step, those of earlier micro-batches included:
  std::size_t before_ = 0;         ///< in the micro-batches before this one
  std::size_t available_ = 0;      ///< that are final
  std::size_t next_ = 0;           ///< before the next one to be summed
  std::size_t last_ = 0;           ///< in the micro-batches before the last one
  Collective* running_ = nullptr;  ///< sums the bucket before next_; null: none is being summed
  std::size_t piece_ = 0;          ///< next owned range of that bucket to be summed between groups
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
