// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>

#include "parallel/local/averaging_weights.hpp"
#include "parallel/local/fragment_sums.hpp"
#include "parallel/local/replica_update.hpp"

namespace lockstep {

/// Synchronizes parameters in fragments, one after the other, during steps (Streaming DiLoCo: Douillard et al. 2025,
/// algorithm 2): a fragment's sum begins `delay` steps before it is applied. After the run's last step all fragments
/// synchronize, so no sum begins that would be applied there.
class StreamingSync {
 public:
  /// `last_step` is that of the run. Arguments that are not owned must outlive this object.
  StreamingSync(const LocalConfig& config, std::unique_ptr<FragmentSums> sums, std::int64_t last_step,
                ParameterBuffer& parameters, ReplicaUpdate& sync, AveragingWeights& weights);

  /// Ends step number `step`: begins the sum that is due, and applies the one that is due.
  void end_step(const ExecSpace& space, std::int64_t step, const std::function<void()>& before_change);
  /// Goes on as far as possible without waiting.
  void advance(const ExecSpace& space) { sums_->advance(space); }
  double take_exposed_seconds() { return sums_->take_exposed_seconds(); }

 private:
  void begin(const ExecSpace& space, std::size_t fragment);
  void finish(const ExecSpace& space);

  LocalConfig config_;
  std::unique_ptr<FragmentSums> sums_;
  std::int64_t last_step_;
  ParameterBuffer& parameters_;
  ReplicaUpdate& sync_;
  AveragingWeights& weights_;
};

}  // namespace lockstep
