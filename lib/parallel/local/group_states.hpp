// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "parallel/config/local_config.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/local/step_group.hpp"
#include "parallel/own_steps.hpp"

namespace lockstep {

/// The optimizer states of groups that step by themselves. At synchronizations they are kept, averaged or forgotten
/// (LocalConfig::state), and so are the numbers of steps behind them, if groups count their own.
class GroupStates {
 public:
  /// `own_steps` is the count of this rank's group; null: its steps are the run's. Arguments that are not owned must
  /// outlive this object.
  GroupStates(const LocalConfig& config, const Communicator& all, const StepGroup& group,
              std::unique_ptr<OwnSteps> own_steps, ParameterBuffer& parameters);

  /// Whether groups have states of their own even after they synchronize.
  bool are_kept() const { return group_.count() > 1 && state_ == LocalConfig::State::keep; }
  /// Null: the steps are the run's.
  OwnSteps* own_steps() const { return own_steps_.get(); }

  /// Call when the ranks of `sync` have synchronized, with `sums`. `weight` is that of this rank's states in an average
  /// over these ranks; none: no group has stepped. The gradients are overwritten. Collective over `sync`.
  void sync(const ExecSpace& space, const Optimizer& optimizer, const Communicator& sync, DataParallel& sums,
            std::optional<double> weight);

  /// See StrategyState. `optimizer_steps`: see go_on_after. `together` says that all ranks do the next step together,
  /// for which they need the same states: if a checkpoint has those of groups, the first group's.
  void share(const ExecSpace& space, const Optimizer& optimizer, std::int64_t optimizer_steps, bool together);
  void add_sharded_states(const Optimizer& optimizer, std::vector<ShardedState>& all) const;

 private:
  void average(const ExecSpace& space, const Optimizer& optimizer, DataParallel& sums, double weight) const;

  LocalConfig::State state_;
  Communicator all_;
  const StepGroup& group_;
  std::unique_ptr<OwnSteps> own_steps_;
  ParameterBuffer& parameters_;
};

}  // namespace lockstep
