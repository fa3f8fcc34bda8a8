// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/execution.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// The number of steps that a replica's optimizer states result from, as checkpoints hold it, for replicas that leave
/// out some of the run's steps. What an optimizer divides by a function of that number (Adam's bias correction) follows
/// it.
class OptimizerStepCount {
 public:
  OptimizerStepCount();

  void note(const ExecSpace& space, std::int64_t steps);
  /// Returns the number that the first rank of `alike`, whose states are the same, has from a checkpoint; none if it
  /// has none. An average of several, made as the states were averaged, is rounded. Collective over `alike`.
  std::optional<std::int64_t> restored(const ExecSpace& space, const Communicator& alike) const;
  /// Adds the number of a replica, or of the run, to what checkpoints hold; `has_it` on the rank that gives it.
  void add_to(std::vector<ShardedState>& all, bool has_it, std::optional<ShardedState::Replica> replica) const;
  /// Adds the optimizer's states of a replica, and this number.
  void add_with_states(std::vector<ShardedState>& all, const std::vector<Optimizer::State>& states, bool has_them,
                       ShardedState::Replica replica) const;

 private:
  OwnedTensor next_;  ///< f64 [1]: number of the next step, from 1 on; 0: not known
};

}  // namespace lockstep
