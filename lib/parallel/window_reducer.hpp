// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "nn/parameter_buffer.hpp"
#include "parallel/buckets.hpp"
#include "parallel/gradient_reducer.hpp"

namespace lockstep {

/// Sums of gradients that no rank has as a whole: each micro-batch's are summed over ranks bucket by bucket in their
/// windows, and then added to what their owner has of the micro-batches before (OwnedParameters).
class WindowReducer final : public GradientReducer {
 public:
  /// `memory`: see gradient_memory; on hosts the windows of `parameters`, which outlives this, lie in it. Collective.
  WindowReducer(const ParallelConfig& config, const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                const ParameterBuffer& parameters, const GradientBuckets& buckets);

  /// Layers of this time are next: waits until the windows that they write are free. Collective.
  void enter(const ExecSpace& space, int time);
  void ready(const ExecSpace& space, std::int64_t end) override;
  void shard_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  std::int64_t summed() const override;
  double take_exposed_seconds() override;

 private:
  struct Bucket {
    ParameterRange range;
    Collective* sum;
    std::vector<ParameterRange> owned;  ///< of it
  };

  void add_buckets(const std::vector<Stretch>& buckets, Collective* sum, const std::vector<ParameterRange>& owned);
  void advance(const ExecSpace& space);
  void complete(const ExecSpace& space, std::size_t last, const std::function<void()>& meanwhile);
  void start(const ExecSpace& space, const Bucket& bucket);
  void arrive(const ExecSpace& space, const Bucket& bucket, bool first);

  const ParameterBuffer& parameters_;
  bool waits_;                                      ///< for each bucket, when it is ready
  Kokkos::View<std::byte*, StagingSpace> staging_;  ///< of devices
  std::byte* host_;                                 ///< where windows are summed
  std::unique_ptr<Collective> sum_, exact_sum_;     ///< of what is trained, and of what is behind it
  std::vector<Bucket> buckets_;
  std::vector<WindowTurn> turns_;
  std::vector<ParameterRange> gaps_;  ///< between parameters
  // Buckets of the step, those of the micro-batches before included:
  std::size_t before_ = 0;     ///< of the micro-batches before
  std::size_t available_ = 0;  ///< that are final
  std::size_t next_ = 0;       ///< to be begun
  bool running_ = false;       ///< the one before it is being summed
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
