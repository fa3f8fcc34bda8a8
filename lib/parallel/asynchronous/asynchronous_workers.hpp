// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "optim/optimizer.hpp"
#include "optim/update_scalars.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/own_steps.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The steps that an asynchronous worker does by itself between reading parameters and giving what it has changed
/// (asynchronous local SGD: Liu et al. 2024, "Asynchronous Local-SGD training for language modeling"). They are steps
/// of the worker's own optimizer, whose states stay with it.
///
/// The run's batches have equal parts, and an update has as many rounds: round r of update u (both from 0 on) computes
/// part r of each of the update's batches. The learning rate is that of the batch's step; what optimizers count are the
/// worker's own steps.
class WorkerSteps {
 public:
  /// `parts` is the number of parts of a batch.
  WorkerSteps(const UpdateSteps& steps, std::int64_t parts, ParameterBuffer& parameters);

  /// Begins round number `round` of the run, with the parameters in the buffer.
  void begin(const ExecSpace& space, std::int64_t round);
  bool under_way() const { return done_ < of_round_; }
  /// Number, among the parts of all batches, of the part that the next step computes.
  std::int64_t part() const { return (first_step_ + done_) * parts_ + place_; }

  /// Makes a step by the gradients in the buffer. `own` counts the worker's steps. `judged` must be in host memory.
  void update(const ExecSpace& space, Optimizer& optimizer, const ParallelStrategy::Coefficients& coefficients,
              const UpdateScalars& judged, OwnSteps& own);
  /// Ends a step, whether it was made or not; returns whether the round is over.
  bool end_step() { return ++done_ == of_round_; }
  /// Writes what the round has changed to the gradients' memory: the parameters that it began with, minus those now.
  void take_difference(const ExecSpace& space) const;

 private:
  Tensor values() const { return parameters_.values({0, parameters_.trained_size()}); }

  UpdateSteps steps_;
  std::int64_t parts_;
  ParameterBuffer& parameters_;
  OwnedTensor begun_;  ///< the parameters that the round began with
  UpdateScalarsMemory scalars_;
  std::int64_t first_step_ = 0, place_ = 0;
  std::int64_t done_ = 0, of_round_ = 0;  ///< steps done, of this round's
};

/// Adds what checkpoints hold of a worker that steps by itself: the states of its optimizer, and the number of steps
/// behind them. `own` is that count on the rank that holds the states, and null on all others.
void add_numbers_of_worker(const std::vector<Optimizer::State>& states, const OwnSteps* own,
                           ShardedState::Replica worker, std::vector<ShardedState>& all);

/// Course of a run of asynchronous workers.
struct WorkersCourse {
  std::int64_t batch = 0;                   ///< examples of a batch
  std::function<bool(std::int64_t)> syncs;  ///< whether the run looks at its parameters after a step of this number
  std::int64_t last = 0;                    ///< last step of the run
};

/// Base of the strategies whose workers step by themselves and come together where the run looks at its parameters:
/// after the update in which that is due. A step is that of one worker, and is judged by its ranks alone. The step of a
/// synchronization is done by all ranks on no examples, and stands for all steps of the run since the synchronization
/// before.
///
/// Workers give gradients or, where they step by themselves (WorkerSteps), what a round of steps has changed.
class AsynchronousWorkers : public ParallelStrategy {
 public:
  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override;
  UpdateScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) final;
  void end_step(const ExecSpace& space) final;
  Sync sync_of(std::int64_t) const final { return {.is_local = !syncs_}; }
  /// At a synchronization, the square gives the norm of the last update's mean gradient, or difference.
  Tensor measure_gradients(const ExecSpace& space, Measure what) final;
  void update(const ExecSpace& space, const UpdateScalars* step, double) final;

 protected:
  struct Run {
    WorkersCourse course;
    UpdateSteps steps;
    std::int64_t parts_of_batch = 1, collect = 1;  ///< parts of a batch; gradients or rounds of an update
    std::int64_t optimizer_steps = 0;              ///< see go_on_after
    std::int64_t synced = 0;                       ///< version at the last synchronization
  };
  enum class Give { gradients, rounds };
  AsynchronousWorkers(Run run, Give what, ParameterBuffer& parameters);

  const Run& run() const { return run_; }
  bool syncs() const { return syncs_; }

  // What the derived strategies implement:
  /// All workers set out from a synchronization; the next one is at version `sync`.
  virtual void set_out(std::int64_t sync) = 0;
  struct Turn {
    std::optional<std::int64_t> part{};  ///< part that a worker goes on with (PartRequest); none: all synchronize
    std::int64_t version = 0;            ///< at a synchronization: version of the parameters
    std::int64_t examples = 0;           ///< and number of examples that all workers have stepped on since the last one
  };
  /// Returns what this rank goes on with, once the parameters for it are in the buffer. May wait for other ranks.
  virtual Turn next_turn(const ExecSpace& space) = 0;
  virtual PartRequest request(std::int64_t part) const = 0;
  /// Returns who does a step of one worker, and whether its losses are added to those since the last synchronization or
  /// take the place of some.
  virtual UpdateScope scope_of_step(const BatchPlan& batch) const = 0;
  /// Step count of the optimizer of the worker whose round is under way.
  virtual OwnSteps& own_steps() = 0;
  /// Called when a round has ended; what it has changed is in the gradients' memory.
  virtual void round_is_over(const ExecSpace& space) = 0;
  virtual void sync_is_over() {}
  /// Returns Σ of the squares of the last update's sum, over all ranks. Collective.
  virtual double square_of_sum(const ExecSpace& space) = 0;

 private:
  PartRequest next_part(const ExecSpace& space);

  Run run_;
  ParameterBuffer& parameters_;
  std::optional<WorkerSteps> round_;  ///< none: workers give gradients
  std::int64_t sync_version_ = 0;     ///< version at the last synchronization, once it has begun
  double factor_ = 0;                 ///< of the norm at a synchronization
  GradientSquare square_;
  OwnedTensor at_sync_;                  ///< measure_gradients at a synchronization, f64 [1]
  bool syncs_ = true, is_first_ = true;  ///< this step is a synchronization; the next one is the first after it
};

}  // namespace lockstep
