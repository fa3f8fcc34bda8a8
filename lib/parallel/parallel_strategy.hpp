// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/sampler.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "nn/pass_hooks.hpp"
#include "optim/optimizer.hpp"
#include "parallel/batch_dealing.hpp"
#include "parallel/gradient_counts.hpp"
#include "parallel/replica_sync.hpp"
#include "parallel/step_scope.hpp"
#include "parallel/strategy_state.hpp"

namespace lockstep {

/// How ranks share the work on one network: what travels in a step, which ranges of the parameters and of the
/// optimizer's state each rank owns (ParameterLayout::owned), and when all parameters are complete again. In each step,
/// all ranks call begin_step; for each sum of gradients that a rank computes, gradient_ready for each range and then
/// gradient_sum_done; finish_gradients; then whatever looks at gradients; before_update; update, unless the step is
/// skipped; and end_step.
class ParallelStrategy : public BatchDealing, public ReplicaSync, public StrategyState {
 public:
  /// Returns what the optimizer multiplies with after so many applied steps of the run. `own` is the number of steps
  /// that its states result from; none: `applied`.
  using Coefficients = std::function<UpdateScalars(std::int64_t applied, std::optional<std::int64_t> own)>;
  /// What parameters are updated with.
  struct Updater {
    Optimizer& optimizer;
    Coefficients coefficients;            ///< for updates between those of the run's steps
    std::function<void()> before_change;  ///< called before parameters change in another way than by `update`
  };
  /// Call once, before all other functions of this class and of StrategyState. What `updater` refers to must outlive
  /// the strategy.
  virtual void bind(const Updater& updater) { updater_.emplace(updater); }

  /// Begins step number `number`, on this rank's part of a batch.
  virtual StepScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) = 0;
  /// Ends the step. Returns whether groups of ranks have synchronized that had stepped by themselves. Collective if
  /// they do.
  virtual bool end_step(const ExecSpace& /*space*/) { return false; }

  /// Call when the step that was begun cannot be done: what is kept of gradients from step to step, which has changed
  /// with them, begins anew.
  virtual void forget_gradients(const ExecSpace& /*space*/) {}

  /// Call when the next range of the gradients of this rank, or of one of its shards, is final. Waits for other ranks
  /// if sums do not overlap (parallel.overlap: none).
  virtual void gradient_ready(const ExecSpace& space, ElementRange range) = 0;
  /// Call when all of them are final: those of the next sum may then overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// Waits until the owned gradients are sums over all ranks. `meanwhile` is called repeatedly and must not wait.
  /// Collective.
  virtual void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;

  /// While sums are under way: number of elements, from the beginning of the flat buffer, whose owned gradients are
  /// sums already.
  virtual std::int64_t summed() const { return 0; }

  /// Whether sums of gradients are exact, up to rounding.
  virtual bool sums_exactly() const { return true; }

  // Properties of the summed gradients, with the same bits on all ranks if the sums have the same bits there
  // (Algorithm::by_library). Each rank looks at the gradients that it owns. Collective.
  /// Sum of squares of the gradients, f64 [1] in device memory.
  virtual Tensor gradient_square(const ExecSpace& space) = 0;
  /// 0 if all gradients are finite, else more, f64 [1] in device memory.
  virtual Tensor nonfinite_gradients(const ExecSpace& space) = 0;

  /// Call before `update`, when it is known that the step can be done (on devices, where that is known a step late, in
  /// every step): the parameters are still those of the step before.
  virtual void before_update(const ExecSpace& /*space*/) {}

  /// Makes new values of the owned parameters from their gradients, and adds to the layers' statistics
  /// `statistics_factor` times what is in the place of their gradients. Nothing changes if `step`, in the step's
  /// memory, is left out. New values may arrive later (PassHooks). Collective.
  virtual void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) = 0;

  /// Returns what takes part in the model's passes from here on. Updates that a step has begun may then go on in
  /// passes.
  virtual PassHooks pass_hooks() { return {}; }

  /// Returns the outcome of the gradients of the run's first `steps` steps; empty if they are always applied to the
  /// parameters that they were computed by.
  virtual GradientCounts gradient_counts(std::int64_t /*steps*/) const { return {}; }

  /// Makes sure that what rank 0 has written to files of its own is on disk, before a checkpoint that counts on it.
  /// From any thread. Throws io_error.
  virtual void flush_files() {}

  /// Seconds that steps have waited for other ranks since the last call.
  virtual double take_exposed_seconds() = 0;

 protected:
  const Updater& updater() const { return *updater_; }
  Optimizer& optimizer() const { return updater_->optimizer; }

 private:
  std::optional<Updater> updater_;
};

}  // namespace lockstep
