// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/asynchronous/asynchronous_workers.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/groups/replica_update.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"

namespace lockstep {

/// Simulated asynchronous workers that step by themselves (WorkerSteps), in a known order (PushOrder). Each worker
/// belongs to one rank, which has the worker's optimizer states: of R ranks, rank m mod R has worker m. A rank
/// simulates its workers' rounds of an update, from the versions that these have read. Then all ranks get all changes,
/// and each makes the same step of the outer optimizer with them, so that the numbers are the same on any number of
/// ranks.
class SimulatedWorkers final : public AsynchronousWorkers {
 public:
  /// Collective.
  SimulatedWorkers(const ParallelConfig& config, const Communicator& ranks, PushOrder order, WorkersCourse course,
                   ParameterBuffer& parameters);

  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override;
  void bind(const Updater& updater) override;
  void gradient_ready(const ExecSpace&, ElementRange) override {}
  void gradient_sum_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  GradientCounts gradient_counts(std::int64_t steps) const override {
    return {order_.staleness_counts(run().steps.updates_before(steps)), 0};
  }
  double take_exposed_seconds() override { return std::exchange(exposed_seconds_, 0.0); }

 private:
  /// What a worker of this rank has of its own.
  struct Worker {
    OwnedTensor read;                 ///< version that its next round begins with, if that may not be the newest
    std::vector<OwnedTensor> states;  ///< of its optimizer, between its rounds
    OwnSteps own;
  };
  void set_out(std::int64_t sync) override { sync_ = sync; }
  Turn next_turn(const ExecSpace& space) override;
  PartRequest request(std::int64_t part) const override {
    return {.part = part * order_.members(), .count = order_.members()};
  }
  UpdateScope scope_of_step(const BatchPlan& batch) const override;
  OwnSteps& own_steps() override { return worker(push().worker).own; }
  void round_is_over(const ExecSpace& space) override;
  double square_of_sum(const ExecSpace&) override { return square_of_sum_; }

  int rank_of(std::int64_t worker) const { return static_cast<int>(worker % ranks_.size()); }
  /// Returns a worker of this rank.
  Worker& worker(std::int64_t number) { return workers_[static_cast<std::size_t>(number / ranks_.size())]; }
  const PushOrder::Push& push() const { return order_.of_update(version_ + 1)[static_cast<std::size_t>(place_)]; }
  Tensor trained() const { return parameters_.values({0, parameters_.trained_size()}); }
  void swap_states(const ExecSpace& space);
  void apply_changes(const ExecSpace& space);
  void keep_copies(const ExecSpace& space, bool before_update);
  std::int64_t examples_since_sync() const;

  bool divides_by_staleness_;
  std::string record_;  ///< path; empty: none
  Communicator ranks_, alone_;
  PushOrder order_;
  ParameterBuffer& parameters_;
  OwnedTensor newest_;  ///< the newest version
  OuterOptimizer outer_;
  std::optional<DeterministicReducer> pieces_;  ///< sums the pieces of a step's gradient; none: it is in one piece
  std::vector<Worker> workers_;                 ///< this rank's
  std::vector<OwnedTensor> changes_;            ///< of this rank's rounds of an update
  OrderedSum sum_;                              ///< of all changes of an update
  GradientSquare square_;
  double square_of_sum_ = 0;             ///< of the last update before a synchronization
  std::int64_t version_ = 0, sync_ = 0;  ///< newest version; version of the next synchronization
  std::int64_t place_ = 0;               ///< in the current update
  std::size_t changed_ = 0;              ///< rounds of this rank done in the current update
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
