// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// An optimizer's state, of which each rank has what it owns, put together on rank 0, and dealt out from there.
class OptimizerShards {
 public:
  /// `layout`: says what this rank owns. Outlives this. Collective.
  OptimizerShards(const Communicator& ranks, const ParameterLayout& layout);

  /// The states of all parameters, on rank 0; empty on the others. Collective.
  WholeStates gather(const ExecSpace& space, const Optimizer& optimizer) const;
  /// Each rank gets its part of those that rank 0 has. Collective.
  void scatter(const ExecSpace& space, const WholeStates& whole, const Optimizer& optimizer) const;

 private:
  const Communicator& ranks_;
  const ParameterLayout& layout_;
  std::vector<std::vector<ParameterRange>> owned_;  ///< by each rank; on rank 0
};

}  // namespace lockstep
