// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset/dataset.hpp"
#include "parallel/groups/group_exchange.hpp"
#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Makes the Trainer of a deck for all of these ranks, without parallel.local. `train` outlives it. The parameters are
/// not initialised. Collective; whatever is wrong on any rank is thrown on all of them.
std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& ranks);

/// The trainer of this rank's group, and what travels between groups. Usually all ranks are one group, and nothing
/// does. With parallel.local.from_step, all ranks train together up to that step.
class GroupTrainer {
 public:
  /// `train` outlives this object. The parameters are not initialised. Collective; whatever is wrong on any rank is
  /// thrown on all of them.
  GroupTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
               const Communicator& all);

  Trainer& trainer() { return *trainer_; }
  /// Whether this rank's group is about to train by itself; otherwise all ranks do the next step together.
  bool is_apart() const { return exchange_ && exchange_->is_apart(trainer_->steps() + 1); }
  /// Number of groups of parallel.local; 1: there are none.
  int groups() const { return exchange_ ? exchange_->group().count : 1; }
  /// The part of a batch that the trainer's ranks divide.
  RankShare part_of(std::int64_t batch) const {
    return is_apart() ? exchange_->group().part_of(batch) : RankShare{0, batch};
  }
  /// Returns part_of as it is now, for other threads.
  std::function<RankShare(std::int64_t batch)> parts_of_batches() const;

  /// Lets groups part if that is due; the trainer then goes on with this rank's group, and batches are dealt anew.
  /// Returns whether it has. Collective.
  bool part_if_due();
  /// Whether groups part before the next step.
  bool parts_next() const { return !has_parted_ && is_apart(); }
  /// Does a step (Trainer::step), and what is due between groups after it. Requests are those of all ranks after a step
  /// that leaves common parameters, and none after other steps. Examples are those of the whole batch. Collective.
  StepResult step(
      const HostBatch& batch, const std::function<RankRequests()>& requests = [] { return RankRequests{}; });
  // See Trainer::settle and StepUpdate::take_last.
  std::optional<StepOutcome> settle();
  std::optional<StepOutcome> take_last();

  /// Whether all ranks have the parameters of the run.
  bool has_common_parameters() const {
    return trainer_->has_common_parameters() && (!exchange_ || exchange_->is_common(trainer_->steps()));
  }
  /// Largest number of steps from one that leaves common parameters to the next.
  std::int64_t steps_between_syncs() const { return steps_between_syncs_; }
  /// Returns what this rank gives to checkpoints. The memory stays where it is.
  std::vector<ShardedState> sharded_states() const;
  /// Gives all ranks the parameters of rank 0, and what else they have in common (Trainer::share_parameters).
  /// Collective.
  void share_parameters();

 private:
  void continue_in_group();
  void note_optimizer_steps();
  void sync_if_due(const BatchPlan& batch);
  void expect_done(const std::optional<StepOutcome>& outcome) const;

  Communicator all_;  ///< ranks of all groups
  RunConfig own_;     ///< deck of this rank's group
  std::int64_t steps_between_syncs_ = 1;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<GroupExchange> exchange_;  ///< null: there are no groups
  bool has_parted_ = false;                  ///< the trainer is that of this rank's group
  ExecSpace space_;
};

}  // namespace lockstep
