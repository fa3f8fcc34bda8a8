// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/execution.hpp"
#include "data/batch/sampler.hpp"
#include "nn/pass_hooks.hpp"
#include "optim/optimizer.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "parallel/sharded_state.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// How ranks share the work on one network: what travels in a step, which ranges of the parameters and of the
/// optimizer's state each rank owns (ParameterLayout::owned), and when all parameters are complete again. In each step,
/// all ranks call begin_step; for each sum of gradients that a rank computes, gradient_ready for each range and then
/// gradient_sum_done; finish_gradients; then whatever looks at gradients; judged; update, unless the step is skipped;
/// and end_step.
class ParallelStrategy {
 public:
  virtual ~ParallelStrategy() = default;

  /// What parameters are updated with.
  struct Updater {
    Optimizer& optimizer;
    std::function<void()> before_change;  ///< called before parameters change in another way than by `update`
  };
  /// Call once, before all other functions. What `updater` refers to must outlive the strategy.
  virtual void bind(const Updater& updater) { updater_.emplace(updater); }

  /// What holds throughout a run.
  struct Traits {
    /// Ranks that own what this one does, this one included, if ranks divide what is trained; null: nothing is divided.
    const Communicator* ranks_of_same_part = nullptr;
    bool states_change_early = false;  ///< parameters or states may change before this rank does the next update
    bool sums_exactly = true;          ///< sums of gradients are exact, up to rounding
    bool one_version = true;           ///< all gradients of a step are computed by the same parameters
    bool divides_sums = false;         ///< after a sum, each rank has only that of the gradients that it owns
    /// Sums gradients, and knows while sums are under way which are complete; null: that is not known.
    const GradientReducer* early_sums = nullptr;
  };
  const Traits& traits() const { return traits_; }

  // A step:
  /// Begins step number `number`, on this rank's part of a batch.
  virtual void begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) = 0;
  /// Call when the next range of the gradients of this rank, or of one of its shards, is final. Waits for other ranks
  /// if sums do not overlap (parallel.overlap: none).
  virtual void gradient_ready(const ExecSpace& space, ElementRange range) = 0;
  /// Call when all of them are final: those of the next sum may then overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// While sums are under way: number of elements, from the beginning of the flat buffer, whose owned gradients are
  /// sums already.
  std::int64_t summed() const { return traits_.early_sums ? traits_.early_sums->summed() : 0; }
  /// Waits until the owned gradients are sums over all ranks. `meanwhile` is called repeatedly and must not wait.
  /// Collective.
  virtual void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;

  /// A property of the summed gradients, as f64 [1] in device memory: the sum of their squares; or 0 if all of them are
  /// finite, else more.
  enum class Measure { square, nonfinite };
  /// Has the same bits on all ranks if the sums have the same bits there (Algorithm::by_library). Each rank looks at
  /// the gradients that it owns. Collective.
  virtual Tensor measure_gradients(const ExecSpace& space, Measure what) = 0;

  /// Whether a step can be done.
  enum class Verdict { can_be_done, cannot_be_done };
  /// Call with can_be_done before `update`, while the parameters are those of the step before (on devices in every
  /// step, as the verdict is known one step late). Call with cannot_be_done as soon as that is known: the strategy
  /// discards what it keeps of gradients from step to step.
  virtual void judged(const ExecSpace& /*space*/, Verdict /*verdict*/) {}
  /// Updates the parameters that this rank owns by their summed gradients. Adds to the layers' running statistics
  /// `statistics_factor` times the sums that lie where their gradients would. Changes nothing if `step`, which is in
  /// device memory, is left out. New values may arrive later (PassHooks). Collective.
  virtual void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) = 0;
  /// Ends the step.
  virtual void end_step(const ExecSpace& /*space*/) {}

  /// Returns what takes part in the model's passes from here on. Updates that a step has begun may then go on in
  /// passes.
  virtual PassHooks pass_hooks() { return {}; }
  /// Seconds that steps have waited for other ranks since the last call.
  virtual double take_exposed_seconds() = 0;

  // Parameters and optimizer states outside of a step:
  /// Waits until all ranks' new parameters are there. Collective.
  virtual void finish_update(const ExecSpace& /*space*/) {}
  /// Runs `change`, which changes the parameters that this rank owns, while no rank reads them; afterwards all ranks
  /// hold all changes. Collective.
  virtual void change_parameters(const ExecSpace& /*space*/, const std::function<void()>& change) { change(); }
  /// Gives all ranks the parameters of rank 0, and those of its optimizer states that are whole. Collective; an error
  /// of a rank is thrown there when all ranks have come to the end.
  virtual void share(const ExecSpace& space) = 0;
  /// Returns what this rank gives to checkpoints. When it was restored from one, call `share`. The memory stays where
  /// it is.
  virtual std::vector<ShardedState> sharded_states() const = 0;

 protected:
  const Updater& updater() const { return *updater_; }
  Optimizer& optimizer() const { return updater_->optimizer; }

  Traits traits_;  ///< set as a strategy is made

 private:
  std::optional<Updater> updater_;
};

}  // namespace lockstep
