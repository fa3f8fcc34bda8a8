// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/sharded_state.hpp"

namespace lockstep {

/// Parameters and optimizer states as ranks hold them outside of a step: the part of ParallelStrategy for code that
/// sets them, or puts them into checkpoints.
class StrategyState {
 public:
  virtual ~StrategyState() = default;

  /// Call when the run begins, or goes on, after so many steps. The optimizer's states result from `optimizer_steps`,
  /// unless ranks count their own.
  virtual void go_on_after(std::int64_t /*steps*/, std::int64_t /*optimizer_steps*/) {}
  /// Waits until all ranks' new parameters are there. Collective.
  virtual void finish_update(const ExecSpace& /*space*/) {}
  /// Runs `change`, which changes the parameters that this rank owns, while no rank reads them; afterwards all ranks
  /// hold all changes. Collective.
  virtual void change_parameters(const ExecSpace& /*space*/, const std::function<void()>& change) { change(); }

  /// Gives all ranks the parameters of rank 0, and those of its optimizer states that are whole. Collective; an error
  /// of a rank is thrown there when all ranks have come to the end.
  virtual void share(const ExecSpace& space) = 0;
  /// Returns what this rank gives to checkpoints. When it was restored from one, call `share`. The memory stays where
  /// it is.
  virtual std::vector<ShardedState> sharded_states() const = 0;
  /// Ranks that own what this one does, if ranks divide what is trained; null: no other rank does, or nothing is
  /// divided.
  virtual const Communicator* ranks_of_same_part() const { return nullptr; }
  /// Whether parameters or states may change before this rank does the next update.
  virtual bool states_change_early() const { return false; }
};

}  // namespace lockstep
