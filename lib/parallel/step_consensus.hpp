// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "comm/collective/ordered_reduce.hpp"

namespace lockstep {

/// What a rank says about a step, and then what all ranks have said.
struct StepVote {
  bool stop = false;            ///< of any rank: this step is to be the last one
  bool checkpoint = false;      ///< of any rank: it is time for a checkpoint
  bool bad_parameters = false;  ///< of any rank: the step before has left parameters that are not finite
  double loss = 0;              ///< sum over the examples of all ranks, with the same bits on all of them
  double weight = 0;            ///< sum of what these examples count (LossSums::weight), which is exact
};

/// Makes all ranks do the same after the same step: one small all-reduce a step, apart from the gradients, that begins
/// as soon as the loss is known and goes on while gradients are computed. On one rank nothing travels.
class StepConsensus {
 public:
  /// Collective.
  explicit StepConsensus(const Topology& topology);

  /// Casts this rank's vote. Does not wait.
  void begin(const StepVote& own);
  /// Does what can be done now. Returns whether all votes are there.
  bool advance();
  /// Waits for all votes, and returns their result.
  StepVote finish();

 private:
  std::optional<OrderedReduce> reduce_;  ///< none: there is one rank
  StepVote vote_;
};

}  // namespace lockstep
