// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "parallel/asynchronous/worker_exchange.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/groups/replica_update.hpp"
#include "parallel/optimizer_step_count.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"

namespace lockstep {

/// The exchange of simulated workers that do rounds of steps, in a known order (PushOrder). Each worker belongs to one
/// rank, which has the worker's optimizer states: of R ranks, rank m mod R has worker m. A rank simulates its workers'
/// rounds of an update, from the versions that these have read. Then all ranks get all changes, and each makes the same
/// step of the outer optimizer with them, so that the numbers are the same on any number of ranks.
class SimulatedExchange final : public WorkerExchange {
 public:
  /// `steps` are those of rounds, and `part_examples` the examples of a step. `order` must outlive this. Collective
  /// over `ranks`, which are all.
  SimulatedExchange(const ParallelConfig& config, const UpdateSteps& steps, const PushOrder& order,
                    const Communicator& ranks, std::int64_t part_examples, ParameterBuffer& parameters,
                    const Optimizer& optimizer);

  void begin(const ExecSpace& space, std::int64_t version, std::int64_t optimizer_steps) override;
  void run_until(std::int64_t sync) override;
  WorkerTurn next_turn(const ExecSpace& space) override;
  void push(const ExecSpace& space) override;
  double end_sync(const ExecSpace& space) override;
  std::int64_t& optimizer_steps() override { return worker(next_push().worker).optimizer_steps; }
  std::vector<ShardedState> sharded_states() const override;
  GradientCounts counts(std::int64_t updates) const override { return {order_.staleness_counts(updates), 0}; }
  double take_exposed_seconds() override { return std::exchange(exposed_seconds_, 0.0); }

 private:
  /// What a worker of this rank has of its own.
  struct Worker {
    OwnedTensor read;                 ///< version that its next round begins with, if that may not be the newest
    std::vector<OwnedTensor> states;  ///< of its optimizer, between its rounds
    std::int64_t optimizer_steps = 0;
    OptimizerStepCount noted;
  };

  int rank_of(std::int64_t worker) const { return static_cast<int>(worker % ranks_.size()); }
  /// Returns a worker of this rank.
  Worker& worker(std::int64_t number) { return workers_[static_cast<std::size_t>(number / ranks_.size())]; }
  const PushOrder::Push& next_push() const { return order_.of_update(version_ + 1)[static_cast<std::size_t>(place_)]; }
  Tensor trained() const { return parameters_.values({0, parameters_.trained_size()}); }
  void swap_states(const ExecSpace& space);
  void apply_changes(const ExecSpace& space);
  void keep_copies(const ExecSpace& space, bool before_update);

  bool divides_by_staleness_;
  UpdateSteps steps_;
  const PushOrder& order_;
  Communicator ranks_;
  std::int64_t part_examples_;
  ParameterBuffer& parameters_;
  const Optimizer& optimizer_;
  OwnedTensor newest_;  ///< the newest version
  OuterOptimizer outer_;
  std::vector<Worker> workers_;          ///< this rank's
  std::vector<OwnedTensor> changes_;     ///< of this rank's rounds of an update
  OrderedSum sum_;                       ///< of all changes of an update
  std::int64_t version_ = 0, sync_ = 0;  ///< newest version; version of the next synchronization
  std::int64_t place_ = 0;               ///< in the current update
  std::size_t changed_ = 0;              ///< rounds of this rank done in the current update
  std::int64_t examples_ = 0;            ///< in updates since workers set out
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
