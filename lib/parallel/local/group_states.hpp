// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "parallel/config/local_config.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/local/step_group.hpp"
#include "parallel/own_steps.hpp"

namespace lockstep {

/// The states of the optimizers of groups that step by themselves: at synchronizations they are kept, averaged or
/// forgotten (LocalConfig::state), and so are the numbers of steps that they come of, where groups count their own.
class GroupStates {
 public:
  /// `own_steps`: of this rank's group; null: its steps are the run's. What is not owned outlives this.
  GroupStates(const LocalConfig& config, const Communicator& all, const StepGroup& group,
              std::unique_ptr<OwnSteps> own_steps, ParameterBuffer& parameters);

  /// Whether groups have states of their own where they synchronize.
  bool are_kept() const { return group_.count() > 1 && state_ == LocalConfig::State::keep; }
  /// Null: the run's.
  OwnSteps* own_steps() const { return own_steps_.get(); }

  /// The ranks of `sync` have synchronized, by these sums: `weight`, of this rank's states in an average
  /// over them; none: nobody has stepped. What gradients were there is overwritten. Collective over these ranks.
  void sync(const ExecSpace& space, const Optimizer& optimizer, const Communicator& sync, DataParallel& sums,
            std::optional<double> weight);

  /// As StrategyState's. `optimizer_steps`: see go_on_after. `together`: all ranks do the next step, for which they
  /// need the same states; where a checkpoint has those of groups, they are the first one's.
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
