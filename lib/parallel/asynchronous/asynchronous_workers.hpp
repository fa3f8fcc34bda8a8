// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>

#include "optim/gradient_scale.hpp"
#include "parallel/asynchronous/worker_steps.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// A run of asynchronous workers.
struct WorkersCourse {
  std::int64_t batch = 0;                   ///< examples
  std::function<bool(std::int64_t)> syncs;  ///< whether the run looks at its parameters after step number …
  std::int64_t last = 0;                    ///< step
};

/// Strategies of workers that go their own ways, and come together where the run looks at its parameters: after an
/// update in which that is due. A step is one of a worker's, judged by its ranks alone; the one after the last before
/// a synchronization has no examples, and stands for all steps of the run since the synchronization before.
///
/// Workers give gradients; or, where they step by themselves (WorkerSteps), what a round of steps has changed.
class AsynchronousWorkers : public ParallelStrategy {
 public:
  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override;
  Dealing dealing() const final { return Dealing::as_they_come; }
  PartRequest next_part(const ExecSpace& space) final;
  StepScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) final;
  bool end_step(const ExecSpace& space, double learning_rate) final;
  bool is_local(std::int64_t) const final { return !syncs_; }
  bool ranks_have_same_states() const final { return false; }
  bool states_change_early() const final { return true; }
  /// After a synchronization, as the norm of the mean gradient, or difference, of the last update is asked for.
  Tensor gradient_square(const ExecSpace& space) final;
  Tensor nonfinite_gradients(const ExecSpace& space) final;
  void update(const ExecSpace& space, const StepScalars* step, double) final;

 protected:
  struct Run {
    WorkersCourse course;
    UpdateSteps steps;
    std::int64_t parts_of_batch = 1, collect = 1;  ///< of a batch; of an update
    std::int64_t optimizer_steps = 0;              ///< see go_on_after
    std::int64_t synced = 0;                       ///< version of the last synchronization
  };
  enum class Give { gradients, rounds };
  AsynchronousWorkers(Run run, Give what, ParameterBuffer& parameters);

  const Run& run() const { return run_; }
  bool syncs() const { return syncs_; }

  // What kinds of them do:
  /// All set out from a synchronization; the next one is that of version `sync`.
  virtual void set_out(std::int64_t sync) = 0;
  struct Turn {
    std::optional<std::int64_t> part{};  ///< that a worker goes on with (PartRequest); none: all synchronize
    std::int64_t steps = 0;              ///< of its round (UpdateSteps::of_round)
    std::int64_t version = 0;            ///< at a synchronization, of its parameters,
    std::int64_t examples = 0;           ///< and what all workers have stepped on since the last one
  };
  /// The buffer has the parameters that it is by. May wait for other ranks.
  virtual Turn next_turn(const ExecSpace& space) = 0;
  virtual PartRequest request(std::int64_t part) const = 0;
  /// Who does a step of one worker, and whether its losses are added to those since the last synchronization or take
  /// the place of some.
  virtual StepScope scope_of_step(const BatchPlan& batch) const = 0;
  /// The step count of the optimizer of the worker whose round is under way.
  virtual OwnSteps& own_steps() = 0;
  /// A round has ended; what it has changed is in the gradients' memory.
  virtual void round_is_over(const ExecSpace& space) = 0;
  virtual void sync_is_over() {}
  /// Σ of the squares of the last update's sum, over all ranks. Collective.
  virtual double square_of_sum(const ExecSpace& space) = 0;

 private:
  Run run_;
  ParameterBuffer& parameters_;
  std::optional<WorkerSteps> round_;  ///< none: workers give gradients
  std::int64_t sync_version_ = 0;     ///< of the last synchronization, once it has begun
  double factor_ = 0;                 ///< there, of the norm
  GradientSquare square_;
  OwnedTensor at_sync_;                  ///< its square, f64 [1]
  bool syncs_ = true, is_first_ = true;  ///< of the steps since the last synchronization
};

}  // namespace lockstep
