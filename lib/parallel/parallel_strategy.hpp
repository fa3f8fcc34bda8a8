// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "data/sampler.hpp"
#include "nn/parameter_arrival.hpp"
#include "nn/parameter_buffer.hpp"
#include "optim/optimizer.hpp"
#include "parallel/gradient_counts.hpp"
#include "parallel/held_numbers.hpp"

namespace lockstep {

class OwnSteps;

/// The ranks whose gradients make one update of a step, which they judge together.
struct StepRanks {
  std::int64_t examples = 0;            ///< of theirs, by which the sum of gradients is divided; 0: they leave it out
  const Communicator* group = nullptr;  ///< null: all ranks
  std::span<const std::int64_t> numbers{};  ///< of the group's ranks among all
  bool meets = true;                        ///< behind the step all ranks hold the same parameters
  bool one_version = true;                  ///< all its gradients are by the same parameters
  std::int64_t updates = 1;                 ///< steps of the run that are done with it; 0: it is a part of a later one
  std::optional<std::int64_t> examples_of_all{};  ///< that all ranks compute in this step; none: the whole batch
  /// Its losses are those of a row; or are added to those of the steps before, of which the last one has come to
  /// nothing in some cases.
  enum class Losses { anew, added, in_place_of_last };
  Losses losses = Losses::anew;
  OwnSteps* own_steps = nullptr;  ///< those that the group's optimizer counts; null: those of the run
};

/// How ranks share the work on one network: what travels in a step, which stretches of the parameters and of the
/// optimizer's state each rank owns (ParameterLayout::owned), and when all parameters are whole again. A step calls, on
/// all ranks: begin_step; gradient_ready for each stretch and shard_done, for each sum of gradients that a rank
/// computes; finish_gradients; then whatever looks at gradients; update, unless the step is skipped; and end_step.
class ParallelStrategy {
 public:
  virtual ~ParallelStrategy() = default;

  /// Step number `number`, of this rank's part of a batch, begins. `before_change`: is called before anything here
  /// changes parameters.
  virtual StepRanks begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch,
                               const std::function<void()>& before_change) = 0;
  /// How a rank comes by its examples: batches are divided; or steps take parts of them in another order; or a rank
  /// asks for a part of a batch before each step.
  enum class Dealing { batches, in_known_order, as_they_come };
  virtual Dealing dealing() const { return Dealing::batches; }
  /// Of other dealing than that of batches: equal parts of each.
  virtual std::int64_t parts_of_batch() const { return 0; }
  /// In a known order, those that step number `step` takes.
  virtual std::span<const std::int64_t> parts_of(std::int64_t /*step*/) const { return {}; }
  /// As they come, the next one. Waits for it.
  virtual PartRequest next_part(const ExecSpace& /*space*/) { return {}; }

  /// Examples of a batch of so many by which the parameters change.
  virtual std::int64_t examples_of_update(std::int64_t batch) const { return batch; }

  /// The run begins, or goes on, behind so many steps; the optimizer's states come of `optimizer_steps`, unless ranks
  /// count their own.
  virtual void go_on_behind(std::int64_t /*steps*/, std::int64_t /*optimizer_steps*/) {}
  /// Of strategies that update parameters between `update`s, or replicas by themselves: with this optimizer, and with
  /// what it multiplies with behind so many applied steps of the run. `own`: that its states come of; none: of these.
  using Coefficients = std::function<StepScalars(std::int64_t applied, std::optional<std::int64_t> own)>;
  virtual void update_by(Optimizer& /*optimizer*/, Coefficients /*coefficients*/) {}
  /// The step is over. `learning_rate`: that it had. Whether ranks have met that have gone their own ways. Collective
  /// where they do.
  virtual bool end_step(const ExecSpace& /*space*/, Optimizer& /*optimizer*/, double /*learning_rate*/,
                        const std::function<void()>& /*before_change*/) {
    return false;
  }
  /// Whether groups of ranks do this step by themselves.
  virtual bool is_local(std::int64_t /*step*/) const { return false; }
  /// Whether, behind this step, parameters are those of the run: the same on all ranks.
  virtual bool is_common(std::int64_t /*step*/) const { return true; }
  /// Most steps from one that leaves common parameters to the next.
  virtual std::int64_t steps_between_meetings() const { return 1; }
  /// Behind a step that leaves common parameters: how long the passes of a step took each rank before, in any unit. Of
  /// the steps up to the next such one, those that the slowest rank does.
  virtual std::int64_t follow_times(std::span<const double> /*times*/) { return steps_between_meetings(); }
  /// Whether the optimizer's states are the same where parameters are.
  virtual bool ranks_have_same_states() const { return true; }

  /// The next stretch of the gradients of this rank, or of one of its shards, is final. Does not wait for other ranks.
  virtual void gradient_ready(const ExecSpace& space, ParameterRange range) = 0;
  /// All of them are: the next shard's may overwrite them.
  virtual void shard_done(const ExecSpace& space) = 0;
  /// Waits until the owned gradients are sums over all ranks. `meanwhile` is called again and again, and does not wait.
  /// Collective.
  virtual void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;

  /// Meanwhile: elements of the flat buffer, from its beginning on, of which the owned gradients are these sums.
  virtual std::int64_t summed() const { return 0; }

  /// Whether these sums are exact, to rounding.
  virtual bool sums_exactly() const { return true; }

  /// Whether the optimizer's momentum is in them.
  virtual bool applies_momentum() const { return false; }

  // What is said of summed gradients, the same bits on all ranks; each rank looks at those that it owns. Collective.
  /// f64 [1] in the step's memory: the sum of their squares.
  virtual Tensor gradient_square(const ExecSpace& space) = 0;
  /// f64 [1] in the step's memory: 0 where all are finite, else more.
  virtual Tensor nonfinite_gradients(const ExecSpace& space) = 0;

  /// New values of the owned parameters from their gradients, and of the layers' statistics, to which
  /// `statistics_factor` times what is in their gradients' place is added; nothing changes where `step`, in the step's
  /// memory, is left out. New values may arrive later (parameter_arrival). Collective.
  virtual void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step,
                      double statistics_factor) = 0;

  /// What forward passes of the model have to wait for, where `optimizer` makes the updates from here on; null: for
  /// nothing.
  virtual ParameterArrival* parameter_arrival(Optimizer& /*optimizer*/) { return nullptr; }
  /// What the model tells of the layers that run; null: nobody asks.
  virtual WindowTraffic* window_traffic() { return nullptr; }
  /// Waits until all ranks' new parameters are there. Collective.
  virtual void finish_update(const ExecSpace& /*space*/) {}
  /// Runs `change`, which changes those parameters that this rank owns, when nobody reads them; afterwards all ranks
  /// hold all. Collective.
  virtual void change_parameters(const ExecSpace& /*space*/, const std::function<void()>& change) { change(); }

  /// All ranks get the parameters, and of the optimizer's states those that are whole, of rank 0. Collective; what
  /// a rank throws, it throws when all have come to the end.
  virtual void share(const ExecSpace& space, Optimizer& optimizer) = 0;
  /// What this rank gives to checkpoints; after it has taken them from one, `share` is due. They stay where they are.
  virtual std::vector<HeldNumbers> held_numbers(const Optimizer& optimizer) const = 0;
  /// Whether they may change before this rank does the next update.
  virtual bool held_numbers_change_early() const { return false; }

  /// What has become of the gradients of the run's first `steps` steps; empty where they are always applied to the
  /// parameters that they were computed by.
  virtual GradientCounts gradient_counts(std::int64_t /*steps*/) const { return {}; }

  /// Seconds that steps have waited for other ranks since the last call.
  virtual double take_exposed_seconds() = 0;
};

}  // namespace lockstep
