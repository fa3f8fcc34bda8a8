// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "comm/parallel_config.hpp"
#include "optim/gradient_scale.hpp"
#include "parallel/asynchronous/ordered_sum.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/asynchronous/worker_steps.hpp"
#include "parallel/deterministic_reducer.hpp"
#include "parallel/local/outer_optimizer.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// Asynchronous workers that step by themselves (WorkerSteps), in a known order (PushOrder), played. Each worker is one
/// rank's, which has its optimizer's states: of R ranks, worker m is rank m mod R's. A rank plays the rounds of an
/// update that are its workers', from the versions that these have read; then all ranks get all that they have changed,
/// and each makes the same step of the outer optimizer of it, so that the numbers are the same on any number of ranks.
///
/// A step is one of a worker's, judged by its rank alone; the one behind the last before a meeting has no examples, and
/// stands for all steps since the meeting before, as in FreeParallel. Meetings are where the run looks at the
/// parameters, which are the newest version there.
class PlayedWorkers final : public ParallelStrategy {
 public:
  /// Collective.
  PlayedWorkers(const ParallelConfig& config, const Communicator& ranks, PushOrder order, WorkersCourse course,
                ParameterBuffer& parameters);

  void go_on_behind(std::int64_t steps, std::int64_t optimizer_steps) override;
  void update_by(Optimizer& optimizer, Coefficients coefficients) override;
  Dealing dealing() const override { return Dealing::as_they_come; }
  std::int64_t parts_of_batch() const override { return order_.parts_of_batch() * order_.members(); }
  PartRequest next_part(const ExecSpace& space) override;

  StepRanks begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch,
                       const std::function<void()>& before_change) override;
  bool end_step(const ExecSpace& space, Optimizer& optimizer, double learning_rate,
                const std::function<void()>& before_change) override;
  bool is_local(std::int64_t) const override { return !meets_; }
  bool ranks_have_same_states() const override { return false; }

  void gradient_ready(const ExecSpace&, ParameterRange) override {}
  void shard_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor gradient_square(const ExecSpace& space) override;
  Tensor nonfinite_gradients(const ExecSpace& space) override;
  void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double) override;
  void share(const ExecSpace& space, Optimizer& optimizer) override;
  std::vector<HeldNumbers> held_numbers(const Optimizer& optimizer) const override;
  bool held_numbers_change_early() const override { return true; }
  GradientCounts gradient_counts(std::int64_t steps) const override {
    return {order_.staleness_counts(steps_.updates_before(steps)), 0};
  }
  double take_exposed_seconds() override { return std::exchange(exposed_seconds_, 0.0); }

 private:
  /// What a worker of this rank has of its own.
  struct Worker {
    OwnedTensor read;                 ///< the version that its next round begins with, where that may not be the newest
    std::vector<OwnedTensor> states;  ///< of its optimizer, between its rounds
    OwnSteps own;
  };
  int rank_of(std::int64_t worker) const { return static_cast<int>(worker % ranks_.size()); }
  /// One of this rank's.
  Worker& worker(std::int64_t number) { return workers_[static_cast<std::size_t>(number / ranks_.size())]; }
  const PushOrder::Push& push() const { return order_.of_update(version_ + 1)[static_cast<std::size_t>(place_)]; }
  Tensor trained() const { return parameters_.values({0, parameters_.trained_size()}); }
  Tensor gradients() const { return parameters_.gradients({0, parameters_.trained_size()}); }
  PartRequest request() const { return {.part = round_.part() * order_.members(), .count = order_.members()}; }
  std::int64_t examples_since() const;
  std::int64_t round_of(std::int64_t update, std::int64_t place) const;
  void begin_round(const ExecSpace& space);
  void end_round(const ExecSpace& space);
  void swap_states(const ExecSpace& space);
  void apply_changes(const ExecSpace& space);
  void keep_copies(const ExecSpace& space, bool before_update);

  AsynchronousConfig config_;
  UpdateSteps steps_;
  Communicator ranks_, alone_;
  PushOrder order_;
  WorkersCourse course_;
  ParameterBuffer& parameters_;
  OwnedTensor newest_;  ///< version
  OuterOptimizer outer_;
  WorkerSteps round_;
  std::optional<DeterministicReducer> pieces_;  ///< of a step's gradient; none: it is in one
  std::vector<Worker> workers_;                 ///< this rank's
  std::vector<OwnedTensor> changes_;            ///< of this rank's rounds of an update
  OrderedSum sum_;                              ///< of all changes of an update
  GradientSquare square_;
  OwnedTensor square_of_mean_;  ///< difference of the last update before a meeting, as gradient_square has it; f64 [1]
  Optimizer* optimizer_ = nullptr;
  Coefficients coefficients_;
  std::int64_t version_ = 0, met_ = 0;   ///< the newest; that of the last meeting
  std::int64_t optimizer_steps_ = 0;     ///< see go_on_behind
  std::int64_t place_ = 0;               ///< in the update under way
  std::size_t changed_ = 0;              ///< rounds of this rank in it
  bool meets_ = true, is_first_ = true;  ///< of the steps since the last meeting
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
