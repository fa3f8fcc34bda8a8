// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/host_copy.hpp"
#include "ops/loss.hpp"
#include "parallel/step_consensus.hpp"
#include "parallel/step_scope.hpp"
#include "train/step_result.hpp"

namespace lockstep {

/// This rank's vote on a step, and the others': what it votes by is copied from the step's memory while the backward
/// pass runs. One rank has nobody to tell its loss to, and copies nothing.
class StepVoter {
 public:
  /// `group`: the ranks of local steps (StepScope). Collective.
  StepVoter(const Topology& topology, const Topology& group)
      : has_others_(topology.all.size() > 1), all_(topology), group_(group) {}

  /// The forward pass of the last micro-batch has been started: after it stand the sums of the loss, and whether the
  /// parameters that this rank owns are finite (`nonfinite`: i32 [1]), in the step's memory.
  void look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite);
  /// Votes, once that has arrived: the step's ranks say what they judge it by, all ranks what they do after a step
  /// that leaves them the same parameters.
  void begin(const StepRequests& requests, const StepScope& scope);
  /// Does what can be done now. Whether all votes are there.
  bool advance();
  /// Waits for all votes.
  StepVote finish();

 private:
  bool has_others_;
  StepConsensus all_, group_;
  bool asks_all_ = true, asks_group_ = false, syncs_ = true;  ///< in this step
  HostCopy<LossSums> sums_;
  HostCopy<std::int32_t> nonfinite_;
};

}  // namespace lockstep
