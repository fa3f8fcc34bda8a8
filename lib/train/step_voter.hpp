// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/host_copy.hpp"
#include "ops/loss.hpp"
#include "parallel/step_consensus.hpp"
#include "parallel/step_scope.hpp"
#include "train/step_result.hpp"

namespace lockstep {

/// Collects the votes of all ranks on a step. What this rank votes by is copied from device memory while the
/// backward pass runs. On a single rank nothing is copied, because there is no other rank to tell.
class StepVoter {
 public:
  /// `group` are the ranks of a local step (StepScope). Collective.
  StepVoter(const Topology& topology, const Topology& group)
      : has_others_(topology.all.size() > 1), all_(topology), group_(group) {}

  /// Call when the forward pass of a micro-batch has been started; the last call of a step counts. Begins to copy, from
  /// device memory, the sums of the loss and `nonfinite` (i32 [1]: 0 if the parameters that this rank owns are
  /// finite).
  void look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite);
  /// Votes, once the copies have arrived, for which it waits. The ranks of the step tell each other what they judge it
  /// by; after a step that leaves all ranks the same parameters, all ranks tell each other what they do next.
  void begin(const StepRequests& requests, const StepScope& scope);
  /// Does what can be done now. Returns whether all votes are there.
  bool advance();
  /// Waits for all votes, and returns their result.
  StepVote finish();

 private:
  bool has_others_;
  StepConsensus all_, group_;
  bool asks_all_ = true, asks_group_ = false, syncs_ = true;  ///< in this step; syncs_: see StepScope
  HostCopy<LossSums> sums_;
  HostCopy<std::int32_t> nonfinite_;
};

}  // namespace lockstep
