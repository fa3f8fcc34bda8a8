// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parallel/groups/group_exchange.hpp"
#include "run/trainers/run_trainer.hpp"

namespace lockstep {

/// The trainer of this rank's group, and what travels between groups (parallel.local). With parallel.local.from_step,
/// all ranks train together up to that step, and split after it.
class GroupTrainer final : public RunTrainer {
 public:
  /// See make_run_trainer.
  GroupTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
               const Communicator& all);

  /// Does a step of this rank's group, and what is due between groups after it. Requests are those of all ranks after a
  /// step that leaves common parameters, and none after other steps. Examples are those of the whole batch.
  StepResult step(BatchSource& batches, const Calls& calls) override;
  std::optional<StepOutcome> settle() override;
  std::optional<StepOutcome> take_last() override;

  bool has_common_parameters() const override { return exchange_->is_common(trainer_->steps()); }
  RankShare part_of(std::int64_t batch) const override {
    return is_apart() ? exchange_->group().part_of(batch) : RankShare{0, batch};
  }
  BatchDealing dealing() const override;
  bool split_if_due() override;
  bool splits_next() const override { return !has_split_ && is_apart(); }
  std::vector<ShardedState> sharded_states() const override;
  void share_parameters() override;

 private:
  /// Whether this rank's group is about to train by itself; otherwise all ranks do the next step together.
  bool is_apart() const { return exchange_->is_apart(trainer_->steps() + 1); }
  int group_count() const { return exchange_->group().count; }
  void continue_in_group();
  void note_optimizer_steps();
  void sync_if_due(const BatchPlan& batch);
  void require_group_done(const std::optional<StepOutcome>& outcome) const;

  RunConfig own_;  ///< deck of this rank's group
  std::unique_ptr<GroupExchange> exchange_;
  bool has_split_ = false;  ///< the trainer is that of this rank's group
  ExecSpace space_;
};

}  // namespace lockstep
