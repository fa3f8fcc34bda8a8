// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/reducers/buckets.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "parallel/reducers/grouped_sum.hpp"

namespace lockstep {

/// Sums of gradients that no rank has as a whole: each micro-batch's are summed over a group's ranks bucket by bucket
/// in their windows, and then added to what their owner has of the micro-batches before (OwnedParameters). The last
/// one's windows get what there is of those before, and are summed between groups.
class WindowReducer final : public GradientReducer {
 public:
  /// `memory`: see gradient_memory; on hosts the windows of `parameters`, which outlives this, lie in it. Collective.
  WindowReducer(const ParallelConfig& config, const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                const ParameterBuffer& parameters, const GradientBuckets& buckets);

  void begin_step(const BatchPlan& batch) override;
  /// Layers of this time are next: waits until the windows that they write are free. Collective.
  void enter(const ExecSpace& space, int time);
  void ready(const ExecSpace& space, std::int64_t end) override;
  void gradient_sum_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  std::int64_t summed() const override;
  double take_exposed_seconds() override;

 private:
  struct Bucket {
    ParameterRange range;
    Collective* sum;
    std::vector<ParameterRange> owned;  ///< of it
    Collective* between_groups;         ///< of what is owned; null: all is summed then
  };

  void advance(const ExecSpace& space);
  void complete(const ExecSpace& space, std::size_t last, const std::function<void()>& meanwhile);
  void start(const ExecSpace& space, const Bucket& bucket);
  void end_sum(const ExecSpace& space);
  void start_between_groups(const ExecSpace& space, const Bucket& bucket, bool first);
  std::byte* on_host(ParameterRange range) const;
  Tensor from_host(const ExecSpace& space, ParameterRange range) const;

  const ParameterBuffer& parameters_;
  bool waits_;                                   ///< for each bucket, when it is ready
  StagingMemory staging_;                        ///< of devices
  std::byte* host_;                              ///< where windows are summed
  std::unique_ptr<Collective> sum_, exact_sum_;  ///< of what is trained, and of what is after it
  std::unique_ptr<Collective> between_groups_;   ///< null: there is one group
  std::vector<Bucket> buckets_;
  std::vector<WindowTurn> turns_;
  std::vector<ParameterRange> gaps_;  ///< between parameters
  // Buckets of the step, those of the micro-batches before included:
  std::size_t before_ = 0;         ///< of the micro-batches before
  std::size_t available_ = 0;      ///< that are final
  std::size_t next_ = 0;           ///< to be begun
  std::size_t last_ = 0;           ///< of the micro-batches before the last one
  Collective* running_ = nullptr;  ///< sums the one before it; null: none is being summed
  std::size_t piece_ = 0;          ///< of what is owned of that one, to be summed between groups next
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
