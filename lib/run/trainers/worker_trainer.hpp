// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/loss/loss.hpp"
#include "parallel/asynchronous/worker_exchange.hpp"
#include "run/trainers/run_trainer.hpp"

namespace lockstep {

/// The trainer of this rank's worker, and what travels between workers (parallel.asynchronous, parallel.backup). A
/// worker is a rank or a group of ranks, or is simulated by one. It computes the gradients of one part of a batch after
/// the other. Where the run looks at its parameters, nothing is under way, and all workers synchronize.
///
/// With parallel.local, a worker does a round of steps by itself between reading parameters and giving what it has
/// changed (Liu et al. 2024, "Asynchronous Local-SGD training for language modeling"). These are steps of the worker's
/// own optimizer, whose states stay with it. An update has as many rounds as a batch has parts: round r of update u
/// (both from 0 on) computes part r of each of the update's batches. The learning rate is that of the batch's step;
/// what optimizers count are the worker's own steps.
class WorkerTrainer final : public RunTrainer {
 public:
  /// See make_run_trainer.
  WorkerTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
                const Communicator& all);

  /// Does all that workers do up to their next synchronization.
  StepResult step(BatchSource& batches, const Calls& calls) override;
  std::optional<StepOutcome> settle() override { return std::nullopt; }
  std::optional<StepOutcome> take_last() override { return std::nullopt; }
  /// The norm is that of the last update's mean gradient, or change.
  LoggedMetrics step_metrics() override { return {trainer_->metrics_of(losses_, all_), norm_}; }

  RankShare part_of(std::int64_t batch) const override { return {0, batch / parts_of_batch_}; }
  BatchDealing dealing() const override;
  GradientCounts gradient_counts() const override { return exchange_->counts(version_); }
  void flush_files() override { exchange_->flush_record(); }
  std::vector<ShardedState> sharded_states() const override { return exchange_->sharded_states(); }
  void share_parameters() override;

 private:
  WorkerTurn next_turn();
  void do_round(BatchSource& batches, std::int64_t round, const Calls& calls);
  void do_step(const HostBatch& batch);
  void count_losses();
  StepOutcome synchronize(const WorkerTurn& turn);
  Tensor values() const { return parameters().values({0, parameters().trained_size()}); }
  ParameterBuffer& parameters() const { return trainer_->model().parameters(); }

  PushOrder order_;     ///< of simulated workers' changes; empty: workers run freely
  std::string record_;  ///< path of the record of that order; empty: none
  bool does_rounds_;
  UpdateSteps steps_;
  std::int64_t parts_of_batch_ = 1, collect_ = 1;  ///< parts of a batch; gradients or rounds of an update
  std::int64_t part_examples_ = 1;
  std::function<bool(std::int64_t)> syncs_;  ///< whether the run looks at its parameters after a step of this number
  std::unique_ptr<WorkerExchange> exchange_;
  OwnedTensor begun_;  ///< the parameters that a round began with
  ExecSpace space_;
  std::int64_t version_ = 0;      ///< of the parameters at the last synchronization
  LossSums losses_{}, pushed_{};  ///< of what has counted since then; of the last gradient, which may still be dropped
  double norm_ = 0, longest_step_ = 0;
};

}  // namespace lockstep
