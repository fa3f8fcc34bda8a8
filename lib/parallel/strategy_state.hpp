// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/sharded_state.hpp"

namespace lockstep {

/// Parameters and the optimizer's states as ranks hold them, outside of a step: a part of ParallelStrategy, for who
/// sets them, or puts them into checkpoints.
class StrategyState {
 public:
  virtual ~StrategyState() = default;

  /// The run begins, or goes on, after so many steps; the optimizer's states come of `optimizer_steps`, unless ranks
  /// count their own.
  virtual void go_on_after(std::int64_t /*steps*/, std::int64_t /*optimizer_steps*/) {}
  /// Waits until all ranks' new parameters are there. Collective.
  virtual void finish_update(const ExecSpace& /*space*/) {}
  /// Runs `change`, which changes those parameters that this rank owns, when nobody reads them; afterwards all ranks
  /// hold all. Collective.
  virtual void change_parameters(const ExecSpace& /*space*/, const std::function<void()>& change) { change(); }

  /// All ranks get the parameters, and of the optimizer's states those that are whole, of rank 0. Collective; what
  /// a rank throws, it throws when all have come to the end.
  virtual void share(const ExecSpace& space) = 0;
  /// What this rank gives to checkpoints; after it has taken them from one, `share` is due. They stay where they are.
  virtual std::vector<ShardedState> sharded_states() const = 0;
  /// Where ranks divide what is trained, those that own what this one does; null: nobody else does, or nothing is
  /// divided.
  virtual const Communicator* ranks_of_same_part() const { return nullptr; }
  /// Whether they may change before this rank does the next update.
  virtual bool states_change_early() const { return false; }
};

}  // namespace lockstep
