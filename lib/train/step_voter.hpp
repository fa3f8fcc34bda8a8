// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/host_copy.hpp"
#include "ops/loss.hpp"
#include "parallel/step_consensus.hpp"
#include "train/step_result.hpp"

namespace lockstep {

/// This rank's vote on a step, and the others': what it votes by is copied from the step's memory while the backward
/// pass runs. One rank has nobody to tell its loss to, and copies nothing.
class StepVoter {
 public:
  /// Collective.
  explicit StepVoter(const Topology& topology) : has_others_(topology.all.size() > 1), consensus_(topology) {}

  /// The forward pass of the last micro-batch has been started: behind it stand the sums of the loss, and whether the
  /// parameters that this rank owns are finite (`nonfinite`: i32 [1]), in the step's memory.
  void look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite);
  /// Votes, once that has arrived.
  void begin(const StepRequests& requests);
  /// Does what can be done now.
  void advance() { consensus_.advance(); }
  /// Waits for all votes.
  StepVote finish() { return consensus_.finish(); }

 private:
  bool has_others_;
  StepConsensus consensus_;
  HostCopy<LossSums> sums_;
  HostCopy<std::int32_t> nonfinite_;
};

}  // namespace lockstep
