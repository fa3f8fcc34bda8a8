// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/collective/ordered_reduce.hpp"
#include "nn/pass_hooks.hpp"

namespace lockstep {

/// SyncBatchNorm: batch statistics over the ranks of a group. What several layers send at the same time goes in one
/// message.
class SyncBatchNormExchange final : public StatisticsExchange {
 public:
  /// `most_channels` is the sum of all layers' channels. Collective.
  SyncBatchNormExchange(const Topology& group, DType master, std::int64_t most_channels);

  void start_moments(const ExecSpace& space, Layers layers) override;
  void start_sums(const ExecSpace& space, Layers layers) override;
  void finish(const ExecSpace& space) override;

  /// Seconds that the step has waited for other ranks since the last call.
  double take_exposed_seconds();

 private:
  void start(const ExecSpace& space, Layers layers, bool moments);

  OrderedReduce reduce_;
  DType master_;
  std::vector<BatchStatistics*> layers_;  ///< of the running exchange
  bool moments_ = false;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
