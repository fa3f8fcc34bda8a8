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

/// How ranks share the work on one network: what travels in a step, which stretches of the parameters and of the
/// optimizer's state each rank owns (ParameterLayout::owned), and when all parameters are whole again. A step calls, on
/// all ranks: begin_step; gradient_ready for each stretch and gradient_sum_done, for each sum of gradients that a rank
/// computes; finish_gradients; then whatever looks at gradients; update, unless the step is skipped; and end_step.
class ParallelStrategy : public BatchDealing, public ReplicaSync, public StrategyState {
 public:
  /// What the optimizer multiplies with after so many applied steps of the run. `own`: that its states come of; none:
  /// of these.
  using Coefficients = std::function<StepScalars(std::int64_t applied, std::optional<std::int64_t> own)>;
  /// What parameters are updated by.
  struct Updater {
    Optimizer& optimizer;
    Coefficients coefficients;            ///< of updates that come between those of the run's steps
    std::function<void()> before_change;  ///< is called before parameters change in another way than by `update`
  };
  /// Once, before all that follows, and all of StrategyState. What `updater` refers to outlives the strategy.
  virtual void bind(const Updater& updater) { updater_.emplace(updater); }

  /// Step number `number`, of this rank's part of a batch, begins.
  virtual StepScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) = 0;
  /// The step is over. `learning_rate`: that it had. Whether ranks have synchronized that have gone their own ways.
  /// Collective where they do.
  virtual bool end_step(const ExecSpace& /*space*/, double /*learning_rate*/) { return false; }

  /// The step that was begun cannot be done: what is kept of gradients from step to step, and has changed with them,
  /// begins anew.
  virtual void forget_gradients(const ExecSpace& /*space*/) {}

  /// The next stretch of the gradients of this rank, or of one of its shards, is final. Waits for other ranks where
  /// sums do not overlap (parallel.overlap: none).
  virtual void gradient_ready(const ExecSpace& space, ParameterRange range) = 0;
  /// All of them are: the next sum's may overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// Waits until the owned gradients are sums over all ranks. `meanwhile` is called again and again, and does not wait.
  /// Collective.
  virtual void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;

  /// Meanwhile: elements of the flat buffer, from its beginning on, of which the owned gradients are these sums.
  virtual std::int64_t summed() const { return 0; }

  /// Whether these sums are exact, to rounding.
  virtual bool sums_exactly() const { return true; }

  /// Whether the optimizer's momentum is in them.
  virtual bool applies_momentum() const { return false; }

  // What is said of summed gradients, the same bits on all ranks, as sums leave them (Algorithm::by_library); each rank
  // looks at those that it owns. Collective.
  /// f64 [1] in the step's memory: the sum of their squares.
  virtual Tensor gradient_square(const ExecSpace& space) = 0;
  /// f64 [1] in the step's memory: 0 where all are finite, else more.
  virtual Tensor nonfinite_gradients(const ExecSpace& space) = 0;

  /// New values of the owned parameters from their gradients, and of the layers' statistics, to which
  /// `statistics_factor` times what is in their gradients' place is added; nothing changes where `step`, in the step's
  /// memory, is left out. New values may arrive later (PassHooks). Collective.
  virtual void update(const ExecSpace& space, const StepScalars* step, double statistics_factor) = 0;

  /// What takes part in the model's passes, from here on, in which updates may go on that a step has begun.
  virtual PassHooks pass_hooks() { return {}; }

  /// What has become of the gradients of the run's first `steps` steps; empty where they are always applied to the
  /// parameters that they were computed by.
  virtual GradientCounts gradient_counts(std::int64_t /*steps*/) const { return {}; }

  /// What rank 0 has written to files of its own is on disk: before a checkpoint that counts on it. From any thread.
  /// Throws io_error.
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
