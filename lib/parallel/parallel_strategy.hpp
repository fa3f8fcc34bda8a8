// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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

/// What a step spans: whose gradients make one update, which ranks judge it together, and what the run counts of it.
struct UpdateScope {
  std::int64_t examples = 0;  ///< of the step's ranks, by which the sum of gradients is divided; 0: they leave it out
  const Communicator* group = nullptr;      ///< the ranks that do the step, and judge it; null: all
  bool syncs = true;                        ///< all ranks hold the same parameters after the step
  bool one_version = true;                  ///< all gradients of the step are computed by the same parameters

  /// A row's losses begin with this step's; or this step's are added to them; or this step's replace those of the step
  /// before, which was left out.
  enum class Losses { anew, added, in_place_of_last };
  /// What the run counts of the step.
  struct InRun {
    std::int64_t steps = 1;  ///< steps of the run that are done with it; 0: it is a part of a later one
    Losses losses = Losses::anew;
  };
  InRun in_run{};
};

/// How ranks get the examples of batches. Usually a batch is divided among them.
struct BatchDealing {
  /// Number of equal parts of a batch, if steps or ranks take parts; 0: batches are divided.
  std::int64_t parts_of_batch = 0;
  /// Returns the parts that step number `step` takes, if their order is known; empty: they have no order of their own.
  std::function<std::span<const std::int64_t>(std::int64_t step)> parts_of{};
  /// Returns the part of this rank's next step, and waits for it; empty: ranks do not ask for parts. At most one of
  /// `parts_of` and `next_part` is set.
  std::function<PartRequest(const ExecSpace& space)> next_part{};
  /// An update takes so many gradients, of one in so many equal parts of a batch each.
  std::int64_t gradients_of_update = 1, gradients_of_batch = 1;

  /// Number of examples behind an update of the parameters, for batches of `batch` examples.
  std::int64_t examples_of_update(std::int64_t batch) const { return batch / gradients_of_batch * gradients_of_update; }
};

/// The outcome of the gradients of workers that do not wait for each other.
struct GradientCounts {
  /// Number of gradients applied 0, 1, … updates after the parameters that they were computed by.
  std::vector<std::int64_t> by_staleness;
  std::int64_t discarded_examples = 0;  ///< examples whose gradients came too late
};

/// How ranks share the work on one network: what travels in a step, which ranges of the parameters and of the
/// optimizer's state each rank owns (ParameterLayout::owned), and when all parameters are complete again. In each step,
/// all ranks call begin_step; for each sum of gradients that a rank computes, gradient_ready for each range and then
/// gradient_sum_done; finish_gradients; then whatever looks at gradients; judged; update, unless the step is skipped;
/// and end_step.
class ParallelStrategy {
 public:
  virtual ~ParallelStrategy() = default;

  /// Returns what the optimizer multiplies with after so many applied steps of the run. `own` is the number of steps
  /// that its states result from; none: `applied`.
  using Coefficients = std::function<UpdateScalars(std::int64_t applied, std::optional<std::int64_t> own)>;
  /// What parameters are updated with.
  struct Updater {
    Optimizer& optimizer;
    Coefficients coefficients;            ///< for updates between those of the run's steps
    std::function<void()> before_change;  ///< called before parameters change in another way than by `update`
  };
  /// Call once, before all other functions. What `updater` refers to must outlive the strategy.
  virtual void bind(const Updater& updater) { updater_.emplace(updater); }

  /// What holds throughout a run.
  struct Traits {
    BatchDealing dealing{};
    bool ranks_have_same_states = true;  ///< ranks with the same parameters have the same optimizer states
    /// Ranks that own what this one does, this one included, if ranks divide what is trained; null: nothing is divided.
    const Communicator* ranks_of_same_part = nullptr;
    bool states_change_early = false;  ///< parameters or states may change before this rank does the next update
    bool sums_exactly = true;          ///< sums of gradients are exact, up to rounding
    /// Sums gradients, and knows while sums are under way which are complete; null: that is not known.
    const GradientReducer* early_sums = nullptr;
    /// Makes sure that what rank 0 has written to files of its own is on disk, before a checkpoint that counts on it.
    /// From any thread. Throws io_error.
    std::function<void()> flush_files = [] {};
  };
  const Traits& traits() const { return traits_; }

  /// How ranks are related after a step.
  struct Sync {
    bool is_local = false;  ///< groups of ranks do the step by themselves
    bool is_common = true;  ///< after it, the parameters are those of the run: the same on all ranks
  };
  virtual Sync sync_of(std::int64_t /*step*/) const { return {}; }

  // A step:
  /// Begins step number `number`, on this rank's part of a batch.
  virtual UpdateScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) = 0;
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
  /// Makes new values of the owned parameters from their gradients, and adds to the layers' statistics
  /// `statistics_factor` times what is in the place of their gradients. Nothing changes if `step`, in the step's
  /// memory, is left out. New values may arrive later (PassHooks). Collective.
  virtual void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) = 0;
  /// Ends the step.
  virtual void end_step(const ExecSpace& /*space*/) {}

  /// Returns what takes part in the model's passes from here on. Updates that a step has begun may then go on in
  /// passes.
  virtual PassHooks pass_hooks() { return {}; }
  /// Seconds that steps have waited for other ranks since the last call.
  virtual double take_exposed_seconds() = 0;

  // Parameters and optimizer states outside of a step:
  /// Call when the run begins, or goes on, after so many steps. The optimizer's states result from `optimizer_steps`,
  /// unless ranks count their own.
  virtual void go_on_after(std::int64_t /*steps*/, std::int64_t /*optimizer_steps*/) {}
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
  /// Returns the outcome of the gradients of the run's first `steps` steps; empty if they are always applied to the
  /// parameters that they were computed by.
  virtual GradientCounts gradient_counts(std::int64_t /*steps*/) const { return {}; }

 protected:
  const Updater& updater() const { return *updater_; }
  Optimizer& optimizer() const { return updater_->optimizer; }

  Traits traits_;  ///< set as a strategy is made

 private:
  std::optional<Updater> updater_;
};

}  // namespace lockstep
