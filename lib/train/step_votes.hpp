// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "comm/collective/ordered_reduce.hpp"
#include "core/host_memory.hpp"
#include "ops/loss/loss.hpp"
#include "train/results.hpp"

namespace lockstep {

/// Collects the votes of all ranks on a step, so that all do the same after the same step: one small all-reduce a step,
/// apart from the gradients, that begins as soon as the loss is known and goes on while gradients are computed. What
/// this rank votes by is copied from device memory while the backward pass runs. On a single rank nothing is copied and
/// nothing travels, because there is no other rank to tell.
class StepVotes {
 public:
  /// What a rank says about a step, and then what all ranks have said.
  struct Vote {
    bool stop = false;            ///< of any rank: this step is to be the last one
    bool checkpoint = false;      ///< of any rank: it is time for a checkpoint
    bool bad_parameters = false;  ///< of any rank: the step before has left parameters that are not finite
    double loss = 0;              ///< sum over the examples of all ranks, with the same bits on all of them
    double weight = 0;            ///< sum of what these examples count (LossSums::weight), which is exact
  };

  /// Collective.
  explicit StepVotes(const Topology& topology);

  /// Call when the forward pass of a micro-batch has been started; the last call of a step counts. Begins to copy, from
  /// device memory, the sums of the loss and `nonfinite` (i32 [1]: 0 if the parameters that this rank owns are
  /// finite).
  void start_copies(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite);
  /// Votes, once the copies have arrived, for which it waits.
  void begin(const RankRequests& requests);
  /// Does what can be done now. Returns whether all votes are there.
  bool advance() { return !reduce_ || reduce_->advance(); }
  /// Waits for all votes, and returns their result.
  Vote finish();

 private:
  std::optional<OrderedReduce> reduce_;  ///< none: there is one rank
  Vote vote_;                            ///< this rank's
  HostCopy<LossSums> sums_;
  HostCopy<std::int32_t> nonfinite_;
};

}  // namespace lockstep
